"""Softmax attention, once: checks the call, picks a backend, can say why, and keeps what is hidden from doing harm.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head, Dv channels of a value.
Order: scale, softcap, bias, mask, softmax, dropout (the ONNX Attention operator, opset 25).
A new backend is one file in `backends/` and one line in `backends/registry.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.backends.contract import Backend
from regard.core.backends.open_form import softmax_weights
from regard.core.backends.registry import BACKENDS
from regard.core.call import Call, prepare
from regard.core.errors import BackendError, ShapeError
from regard.core.finite import guarded
from regard.core.mask.expression import Mask
from regard.core.mask.structure import Structure
from regard.core.three_axes import is_three, lifted
from regard.core.watchers import WATCHERS


@dataclass(frozen=True)
class Choice:
    """Which backend computes a call, and why not the others.

    Attributes:
        name: The backend that is used.
        reasons: For every other backend that refuses, or would be slower: why, with the way out.
        repairs: What the backend changes in the form of the inputs, at no change of the result.
    """

    name: str
    reasons: dict[str, str]
    repairs: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"backend: {self.name}"]
        lines += [f"  repaired: {repair}" for repair in self.repairs]
        lines += [f"  not {name}: {reason}" for name, reason in self.reasons.items()]
        return "\n".join(lines)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    dropout: float = 0.0,
    backend: str | None = None,
) -> Tensor:
    """Softmax attention.

    Args:
        query: (B, H, T, D); or all three (N, T, D), one head each, with mask and bias (T, S) or (N, T, S).
        key: (B, Hkv, S, D). Query head i reads key head i // (H / Hkv).
        value: (B, Hkv, S, Dv).
        mask: A `regard.mask`, or bool (True = attend), (T, S) or 4-D, broadcastable to (B, H, T, S).
        bias: Float, (T, S) or 4-D, broadcastable to (B, H, T, S), added to the scaled scores; may need a gradient.
        scale: Factor of the scores; None = 1 / sqrt(D).
        softcap: c, for c * tanh(scores / c) before the bias.
        sink: (H,), a logit per head that joins the softmax and is dropped.
        dropout: Probability with which a weight is dropped, applied whenever it is not 0; torch's generator.
        backend: "packed", "blocks", "window", "sdpa", "tiled" or "open"; None chooses by rule, see `explain_backend`.

    Returns:
        (B, H, T, Dv), or (N, T, Dv), the dtype of query. A row that sees no key is 0 and has gradient 0. NaN and inf in keys and values
        have no effect on rows from which a mask hides them, nor on the gradients of those rows; a row that sees one is
        NaN in all channels when there is a mask, and what arithmetic makes of it without one.

    Raises:
        ShapeError, DtypeError, MaskError: the arguments do not go together.
        BackendError: the backend that was asked for cannot compute this call; the text has its reason.

    >>> x = torch.ones(1, 1, 2, 4)
    >>> attention(x, x, x, mask=torch.tensor([[True, False], [False, False]]))[0, 0, :, 0]
    tensor([1., 0.])
    """
    given = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "sink": sink, "dropout": dropout}
    if is_three(query, key, value):
        query, key, value, given = lifted(query, key, value, given)
        return attention(query, key, value, **given, backend=backend)[:, 0]
    call = prepare(query, key, value, **given)
    chosen = _forced(call, backend) if backend is not None else _first(call)
    if WATCHERS:
        return _watched(call, chosen)
    return guarded(chosen.run, call, replaces=chosen.replaces)


def explain_backend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    dropout: float = 0.0,
) -> Choice:
    """Which backend `attention` would use for these arguments, and why not the others. Computes nothing."""
    given = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "sink": sink, "dropout": dropout}
    three = is_three(query, key, value)
    if three:
        query, key, value, given = lifted(query, key, value, given)
    call = prepare(query, key, value, **given)
    refusals = {backend.name: backend.refuses(call) or backend.slower(call) for backend in BACKENDS}
    chosen = _first(call)
    reasons = {name: reason for name, reason in refusals.items() if reason is not None}
    dropped = ["mask dropped: it hides nothing in this call"] if mask is not None and call.mask is None else []
    heads = ["query, key and value of three axes get one for their one head"] if three else []
    return Choice(chosen.name, reasons, (*heads, *dropped, *chosen.repairs(call)))


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    queries: Sequence[int] | Tensor | None = None,
    heads: Sequence[int] | Tensor | None = None,
) -> Tensor:
    """What each query gives each key, after softmax, before dropout; for chosen rows and heads only.

    Args:
        query, key, mask, bias, scale, softcap, sink: As in `attention`.
        queries: (t,) rows to return, by their index in `query`; None = all T.
        heads: (h,) query heads to return; None = all H.

    Returns:
        (B, h, t, S), the dtype of query. A row that sees no key is 0; with a sink rows sum to less than 1.
    """
    given = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "sink": sink}
    if is_three(query, key, key):
        query, key, _, given = lifted(query, key, key, given)
        return attention_weights(query, key, **given, queries=queries, heads=heads)[:, 0]
    call = prepare(query, key, key, **given)
    rows = _indices("queries", queries, query.shape[2], query.device)
    chosen = _indices("heads", heads, query.shape[1], query.device)
    return guarded(lambda call: softmax_weights(call).to(query.dtype), _narrowed(call, rows, chosen))


def _watched(call: Call, chosen: Backend) -> Tensor:
    """The same, with watchers told before and after."""
    watchers, outputs = list(WATCHERS), []
    for watcher in watchers:
        watcher.begin(call, chosen.name)
    try:
        outputs.append(guarded(chosen.run, call, replaces=chosen.replaces))
    finally:
        for watcher in watchers:
            watcher.end(call, chosen.name, outputs[0] if outputs else None)
    return outputs[0]


def _first(call: Call) -> Backend:
    """The first backend that can and should; the last one always does."""
    return next(b for b in BACKENDS if b.refuses(call) is None and b.slower(call) is None)


def _forced(call: Call, name: str) -> Backend:
    named = {backend.name: backend for backend in BACKENDS}
    if name not in named:
        raise BackendError(f"there is no backend {name!r}; there are {', '.join(named)}")
    reason = named[name].refuses(call)
    if reason is not None:
        raise BackendError(
            f"backend {name!r} cannot compute this call: {reason}; backend=None takes {_first(call).name!r}"
        )
    return named[name]


def _indices(name: str, chosen: Sequence[int] | Tensor | None, size: int, device: torch.device) -> Tensor | None:
    """(n,) integer on the device; None = all."""
    if chosen is None:
        return None
    if not isinstance(chosen, Tensor):
        wrong = [index for index in chosen if not 0 <= index < size]
        if wrong:
            raise ShapeError(f"{name} has {wrong[0]}, but there are {size}; give indices from 0 to {size - 1}")
        chosen = torch.tensor(list(chosen), dtype=torch.int64)
    if chosen.ndim != 1 or chosen.dtype not in (torch.int64, torch.int32):
        raise ShapeError(f"{name} must be integers (n,), got {chosen.dtype} of shape {tuple(chosen.shape)}")
    return chosen.to(device)


def _narrowed(call: Call, rows: Tensor | None, heads: Tensor | None) -> Call:
    """The call of the chosen rows and heads, with the mask written out for them alone."""
    call = replace(call, rows=rows, _memo={})
    attend, query, key, bias, sink = call.attend(), call.query, call.key, call.bias, call.sink
    if rows is not None:
        query = query[:, :, rows]
        bias = bias if bias is None or bias.shape[2] == 1 else bias[:, :, rows]
    if heads is not None:
        query, key = query[:, heads], key[:, heads // call.group]
        bias = bias if bias is None or bias.shape[1] == 1 else bias[:, heads]
        attend = attend if attend is None or attend.shape[1] == 1 else attend[:, heads]
        sink = None if sink is None else sink[heads]
    memo = {} if attend is None else {"attend": attend}
    form = call.structure if call.mask is None else Structure(rest=(call.mask,))
    return replace(call, query=query, key=key, value=key, bias=bias, sink=sink, structure=form, _memo=memo)
