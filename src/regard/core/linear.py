"""Attention whose weights are products of features: a sum of fixed size stands for all the keys, so cost is linear in them.

Axes: B samples, G key heads, R query heads per key head, H = G x R, T queries, S keys, D and Dv channels of a head,
F features, V = Dv + 1 (a value and a one, whose sum is the normaliser), n chunks of C tokens.
weight(t, s) = phi(q_t) . phi(k_s) / sum over s' of phi(q_t) . phi(k_s'), with phi >= 0.
Sources: Katharopoulos et al. 2020, arXiv:2006.16236, section 3; chunks: Hua et al. 2022, arXiv:2202.10447, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core import chunks
from regard.core.errors import ShapeError
from regard.core.finite import replaced

CHUNK = 64  # tokens: half as fast at 32, no faster at 128 (4 heads of 64 channels, 1,024 tokens)
PIECE = (
    1024  # tokens whose chunks are computed together; without gradients memory beyond the output does not grow further
)


class Features(NamedTuple):
    """What queries and keys became.

    Attributes:
        query: (B, H, T, F), each row up to a factor of its own, which the normaliser removes.
        key: (B, G, S, F).
        exponent: (B, G, S) or None: the features of key s are `key[s] * exp(exponent[s])`. So they may be as large or
            as small as they like. No gradient goes through it.
    """

    query: Tensor
    key: Tensor
    exponent: Tensor | None = None


class State(NamedTuple):
    """All the keys so far.

    Attributes:
        memory: (B, G, F, V), sum over keys of features times (value, 1); in float32, or float64 for float64.
        exponent: (B, G) or None: the memory is to be multiplied by `exp(exponent)`.
    """

    memory: Tensor
    exponent: Tensor | None = None


FeatureMap = Callable[[Tensor, Tensor], Features]  # (B, H, T, D) and (B, G, S, D)


def elu_plus_one(x: Tensor) -> Tensor:
    """elu(x) + 1: exp(x) below 0, x + 1 above. Written so that it does not round to 0 where exp(x) does not."""
    return x.clamp(max=0.0).exp() + x.relu()


def elementwise(function: Callable[[Tensor], Tensor]) -> FeatureMap:
    """The feature map that applies one function, (..., D) to (..., F), to queries and keys."""
    return lambda query, key: Features(function(query), function(key))


def full(query: Tensor, key: Tensor, value: Tensor, features: FeatureMap, *, keep: Tensor | None = None) -> Tensor:
    """Every query sees every key that is kept. Cost O((T + S) F Dv).

    Args:
        query: (B, H, T, D).
        key, value: (B, G, S, D), (B, G, S, Dv); G divides H, query head i reads key head i // (H / G).
        features: What makes weights of them.
        keep: (B or 1, S) bool; False hides a key, whatever it holds.

    Returns:
        (B, H, T, Dv) in the dtype of `query`; summed in float32 or better. A row without weight is 0.
    """
    with _no_autocast(query):
        made, valued = _features(*_exact(query, key, value), features, keep)
        keys = made.key
        if made.exponent is not None:
            top = _largest(made.exponent)
            keys = keys * (made.exponent - top[..., None]).exp()[..., None]
        rows = made.query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)  # (B, G, R T, F)
        sums = rows @ (keys.mT @ valued)
        return _divided(sums).unflatten(2, (-1, query.shape[2])).flatten(1, 2).to(query.dtype)


def causal(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    features: FeatureMap,
    *,
    keep: Tensor | None = None,
    state: State | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, State]:
    """Query t sees the keys up to t and those in `state`. Cost O(T (C + F) Dv).

    Inside a chunk the C x C weights are written out; what lies before is a state, carried from chunk to chunk. What a
    later token holds, NaN included, changes no bit of an earlier row.

    Args:
        query: (B, H, T, D).
        key, value: (B, G, T, D), (B, G, T, Dv).
        features, keep: As in `full`.
        state: What an earlier call returned; None: nothing came before.
        chunk: C.

    Returns:
        (B, H, T, Dv) in the dtype of `query`, and the state behind the last token.
    """
    T = query.shape[2]
    if torch.compiler.is_compiling() or T <= PIECE:
        return _causal(query, key, value, features, keep, state, chunk)
    outputs = []
    for start in range(0, T, PIECE):
        now = slice(start, start + PIECE)
        q, k, v = query[:, :, now], key[:, :, now], value[:, :, now]
        output, state = _causal(q, k, v, features, None if keep is None else keep[:, now], state, chunk)
        outputs.append(output)
    assert state is not None
    with _no_autocast(query):
        return torch.cat(outputs, dim=2), state


def step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    features: FeatureMap,
    *,
    keep: Tensor | None = None,
    state: State | None = None,
) -> tuple[Tensor, State]:
    """`causal` for one token, as a recurrence: the state takes the key in, the query reads the state. Cost O(F Dv).

    Raises:
        ShapeError: More or fewer than one token.
    """
    if query.shape[2] != 1 or key.shape[2] != 1:
        raise ShapeError(f"a step takes one token, got {query.shape[2]} queries and {key.shape[2]} keys; use causal()")
    with _no_autocast(query):
        made, valued = _features(*_exact(query, key, value), features, keep)
        memory, exponent = made.key.mT @ valued, None
        if made.exponent is None:
            memory = memory if state is None else state.memory + memory
        else:
            before = _nothing(memory, memory, made.exponent) if state is None else state
            assert before.exponent is not None
            exponent = torch.maximum(before.exponent, _largest(made.exponent))
            new, old = (made.exponent[..., 0] - exponent).exp(), (before.exponent - exponent).exp()
            memory = memory * new[..., None, None]
            memory = memory if state is None else memory + state.memory * old[..., None, None]
        rows = made.query[:, :, 0].unflatten(1, (key.shape[1], -1))  # (B, G, R, F)
        output = _divided(rows @ memory).flatten(1, 2)[:, :, None]
        return output.to(query.dtype), State(memory, exponent)


def _causal(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    features: FeatureMap,
    keep: Tensor | None,
    state: State | None,
    chunk: int,
) -> tuple[Tensor, State]:
    """`causal`, all chunks at once."""
    H, T, G = query.shape[1], query.shape[2], key.shape[1]
    with _no_autocast(query):
        exact, key, value = _exact(query, key, value)
        key, value = (x if keep is None else _hide(x, keep) for x in (key, value))
        mark = ((key * 0.0).sum(dim=-1) + (value * 0.0).sum(dim=-1)).detach()  # (B, G, T): NaN where not finite
        made, valued = _features(exact, replaced(key), replaced(value), features, keep)
        C = chunks.size_of(T, chunk)
        n = chunks.count_of(T, C)
        R = H // G
        rows = made.query.unflatten(1, (G, R)).transpose(2, 3).flatten(3)  # (B, G, T, R F)
        rows = chunks.split(rows, n, C).unflatten(4, (R, -1)).flatten(3, 4)  # (B, G, n, C R, F)
        keys, valued = chunks.split(made.key, n, C), chunks.split(valued, n, C)
        before = _nothing(keys, valued, made.exponent) if state is None else state
        later = torch.ones(C, C, dtype=torch.bool, device=rows.device).triu(1)[:, None]
        scores = (rows @ keys.mT).unflatten(3, (C, R)).masked_fill(later, 0.0)  # (B, G, n, C, R, C)
        if made.exponent is None:
            memories, ends = _carried(before.memory, keys.mT @ valued, None), None
            past = rows @ memories[:, :, :-1]  # (B, G, n, C R, V)
        else:
            stand = _Exponents(made.exponent, before, n, C)
            scores = scores * stand.inside[:, :, :, :, None]
            memories = _carried(before.memory, (keys * stand.of_keys[..., None]).mT @ valued, stand.ends)
            past = (rows @ memories[:, :, :-1]).unflatten(3, (C, R)) * stand.of_rows[..., None, None]
            past, ends = past.flatten(3, 4), stand.ends[..., -1]
        sums = past + scores.flatten(3, 4) @ valued
        output = chunks.joined(_divided(sums).unflatten(3, (C, R)).flatten(4), T)  # (B, G, T, R Dv)
        output = output.unflatten(3, (R, -1)) + mark.cumsum(dim=-1)[..., None, None]
        output = output.transpose(2, 3).flatten(1, 2)
        after = State(memories[:, :, -1] + mark.sum(dim=-1)[..., None, None], ends)
        return output.to(query.dtype), after


class _Exponents:
    """Factors exp(a - b) that bring keys, states and rows to one scale, none above 1, and none that knows a later key.

    Each row is measured against the largest exponent up to it, each state against the largest up to its end.
    """

    def __init__(self, exponent: Tensor, before: State, n: int, C: int):
        T = exponent.shape[2]
        assert before.exponent is not None
        highest = torch.cat([before.exponent[..., None], exponent], dim=-1).cummax(dim=-1).values  # (B, G, 1 + T)
        of_row, of_key = (chunks.repeat_last(x, n, C) for x in (highest[..., 1:], exponent))  # (B, G, n, C)
        end = (torch.arange(n + 1, device=exponent.device) * C).clamp(max=T)
        self.ends = highest[..., end]  # (B, G, n + 1): before the first chunk, and at the end of each
        self.inside = (of_key[..., None, :] - of_row[..., None]).clamp(max=0.0).exp()  # (B, G, n, C, C)
        self.of_rows = (self.ends[..., :-1, None] - of_row).exp()  # (B, G, n, C)
        self.of_keys = (of_key - self.ends[..., 1:, None]).exp()  # (B, G, n, C)


def _carried(initial: Tensor, added: Tensor, ends: Tensor | None) -> Tensor:
    """(B, G, n + 1, F, V): the state before each chunk, and the one after the last.

    Args:
        initial: (B, G, F, V). added: (B, G, n, F, V), the sum over the keys of each.
        ends: (B, G, n + 1), the exponent of each state; None: all alike.
    """
    parts = torch.cat([initial[:, :, None], added], dim=2)
    if ends is None:
        return parts.cumsum(dim=2)
    if torch.compiler.is_compiling():  # no loop over a number that is not known: n x n factors, small beside n C x F
        factors = (ends[..., None, :] - ends[..., None]).clamp(max=0.0).exp().tril()
        return (factors @ parts.flatten(3)).unflatten(3, parts.shape[3:])
    factors = (ends[..., :-1] - ends[..., 1:]).exp()[..., None, None]
    states = [parts[:, :, 0]]
    for i in range(added.shape[2]):
        states.append(torch.addcmul(parts[:, :, i + 1], states[-1], factors[:, :, i]))
    return torch.stack(states, dim=2)


def _features(
    query: Tensor, key: Tensor, value: Tensor, features: FeatureMap, keep: Tensor | None
) -> tuple[Features, Tensor]:
    """The features, those of hidden keys 0, and the values with a one behind: (B, G, S, V)."""
    if keep is not None:
        key, value = _hide(key, keep), _hide(value, keep)
    made = features(query, key)
    if made.query.shape[-1] != made.key.shape[-1] or made.query.shape[:3] != query.shape[:3]:
        raise ShapeError(
            f"the feature map made {tuple(made.query.shape)} of queries {tuple(query.shape)} and "
            f"{tuple(made.key.shape)} of keys {tuple(key.shape)}; only the last axis may change, and to the same width"
        )
    if keep is not None:
        hidden = None if made.exponent is None else made.exponent.masked_fill(~keep[:, None], float("-inf"))
        made = Features(made.query, _hide(made.key, keep), hidden)
    return made, torch.nn.functional.pad(value, (0, 1), value=1.0)


def _exact(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(query.dtype, torch.float32)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _hide(x: Tensor, keep: Tensor) -> Tensor:
    return x.masked_fill(~keep[:, None, :, None], 0.0)


def _largest(exponent: Tensor) -> Tensor:
    """(B, G): the largest of (B, G, S); a finite number where all are hidden or there are none."""
    lowest = torch.finfo(exponent.dtype).min
    return torch.nn.functional.pad(exponent, (0, 1), value=lowest).amax(dim=-1)


def _nothing(keys: Tensor, valued: Tensor, exponent: Tensor | None) -> State:
    """The state before the first token, for (B, G, ..., F) and (B, G, ..., V)."""
    memory = valued.new_zeros(*keys.shape[:2], keys.shape[-1], valued.shape[-1])
    if exponent is None:
        return State(memory)
    return State(memory, torch.full_like(memory[:, :, 0, 0], torch.finfo(memory.dtype).min))


def _divided(sums: Tensor) -> Tensor:
    """(..., V) to (..., Dv): the sum of values over the sum of ones; 0, and no gradient, where that is 0 or subnormal.

    A subnormal sum has few bits left, and its reciprocal overflows.
    """
    total = sums[..., -1:]
    nothing = total.abs() < torch.finfo(total.dtype).tiny
    return sums[..., :-1] * total.masked_fill(nothing, 1.0).reciprocal().masked_fill(nothing, 0.0)


def _no_autocast(x: Tensor) -> AbstractContextManager:
    """Sums stay in float32 where autocast would take them to 16 bits."""
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
