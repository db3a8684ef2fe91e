"""Why two attentions part on the same input: a projection, roles that are swapped, heads, the scale, or what is hidden.

Both are read into our layer; then the reference's is run with one setting changed at a time, until it gives what the
candidate gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor

from regard.adapt import huggingface, keras_layers, torch_modules
from regard.adapt.found import Found
from regard.adapt.keras_layers import is_keras
from regard.convert.align_record import Step
from regard.convert.align_weights import Cause, compare, same
from regard.convert.build import layer_of, projections_of
from regard.core.errors import RegardError
from regard.core.mask.table import dense
from regard.nn.multi_head import MultiHeadAttention

CLOSE = 1e-4  # of the largest output; settings that are wrong are off by much more


def explain_attention(reference: Step, candidate: Step) -> Cause | None:
    """The cause, or None where neither weights nor settings explain it."""
    theirs, mine = read(reference.module), read(candidate.module)
    if theirs is None or mine is None:
        return None
    here, there = layer_of(theirs).double(), layer_of(mine).double()
    parts, others = projections_of(here), projections_of(there)
    roles = _swapped(parts, others)
    if roles is not None:
        return roles
    names = ("the query projection", "the key projection", "the value projection", "the last projection")
    causes = [compare(a.map(_wide), b.map(_wide), name) for a, b, name in zip(parts, others, names) if a and b]
    found = [cause for cause in causes if cause is not None]
    if found and not all(cause.kind == "head permutation" for cause in found):
        return found[0]
    if found:
        return _heads(found)
    return _settings(here, there, theirs, reference, candidate)


def read(module: Any) -> Found | None:
    """The module as an adapter reads it, or None."""
    adapter: Any = torch_modules
    if is_keras(module):
        adapter = keras_layers
    elif type(module).__module__.startswith("transformers."):
        adapter = huggingface
    try:
        return adapter.find(module, {"mask": None} if adapter is torch_modules else {})
    except RegardError:
        return None


def _wide(x: Tensor) -> Tensor:
    return x.double()


def _swapped(parts: Any, others: Any) -> Cause | None:
    words = {"query": parts.query, "key": parts.key, "value": parts.value}
    there = (others.query, others.key, others.value)
    for order in permutations(words):
        if list(order) == list(words):
            continue
        if all(same(words[name].weight, other.weight) for name, other in zip(order, there)):
            return Cause(
                "roles swapped",
                f"the candidate's query, key and value projections are the reference's {', '.join(order)} projections",
            )
    return None


def _heads(found: list[Cause]) -> Cause:
    """Heads in another order: harmless where all four matrices have it, a fault where they do not."""
    orders = {cause.text.rpartition("order ")[2] for cause in found}
    if len(found) == 4 and len(orders) == 1:
        return Cause(
            "head permutation", f"all four projections have their heads in the order {orders.pop()}: same function"
        )
    return Cause("head permutation", "; ".join(cause.text for cause in found))


def _settings(here: MultiHeadAttention, there: MultiHeadAttention, read: Found, r: Step, c: Step) -> Cause | None:
    if here.num_heads != there.num_heads:
        return Cause("number of heads", f"the reference has {here.num_heads} heads and the candidate {there.num_heads}")
    query = r.inputs[0]
    key = r.inputs[1] if len(r.inputs) > 1 and r.inputs[1].ndim == 3 else query
    here.mask = None  # what is hidden is tried below, word for word
    queries, keys = query.shape[1], key.shape[1]
    known: list[tuple[str, Tensor]] = []
    for name, mask in _masks(r, queries, keys) + _masks(c, queries, keys):
        if not any(torch.equal(mask, other) or torch.equal(~mask, other) for _, other in known):
            known.append((name, mask))

    def gives(attend: Tensor, scale: float | None, expected: Tensor) -> bool:
        here.scale = scale
        with torch.no_grad():
            output = here(query, key, mask=dense(attend[:, None]))
        seen = attend.any(dim=2, keepdim=True)
        if not bool(seen.any()):
            return False
        gap = ((output - expected) * seen).abs().nan_to_num(nan=torch.inf).amax()
        return bool(gap <= CLOSE * output.abs().amax())

    usual = here.scale
    said = next(((name, a) for name, a in _hidden(known, queries, keys, len(query)) if gives(a, usual, r.output)), None)
    if said is None:
        return None
    for name, attend in _hidden(known, queries, keys, len(query)):
        if gives(attend, usual, c.output):
            return _mask_cause(said[0], name)
    for scale in _scales(here):
        if gives(said[1], scale, c.output):
            usual = here.head_dim**-0.5 if usual is None else usual
            return Cause("scale", f"the scores are scaled by {scale:.6g}; the reference has {usual:.6g}")
    return None


Said = frozenset[str]


def _hidden(known: list[tuple[str, Tensor]], queries: int, keys: int, batch: int) -> Iterator[tuple[Said, Tensor]]:
    """Every way to read the masks that were given, from nothing hidden on: what it says, and (B, T, S), True = attend."""
    causal = torch.ones(queries, keys).tril(keys - queries).bool()[None]
    choices = [[("", None), (f"{name}", mask), (f"not {name}", ~mask)] for name, mask in known[:3]]
    choices.append([("", None), ("causal", causal)])
    for chosen in product(*choices):
        attend = torch.ones(batch, queries, keys, dtype=torch.bool)
        for _, mask in chosen:
            attend = attend if mask is None else attend & mask
        yield frozenset(name for name, _ in chosen if name), attend


def _mask_cause(reference: Said, candidate: Said) -> Cause | None:
    def bare(said: Said) -> Said:
        return frozenset(name.removeprefix("not ") for name in said)

    if reference == candidate:
        return None
    if bare(reference) == bare(candidate):
        return Cause(
            "mask polarity", "the mask is read the other way round: what the reference attends to, this one hides"
        )
    if bare(reference) ^ bare(candidate) == {"causal"}:
        lacks = "causal" in reference
        return Cause("causality", f"the {'candidate' if lacks else 'reference'} sees the future and the other does not")
    if bare(candidate) < bare(reference):
        lost = ", ".join(sorted(bare(reference) - bare(candidate)))
        return Cause("mask ignored", f"the candidate attends as if {lost} had not been given")
    shown = [" and ".join(sorted(said)) or "nothing" for said in (reference, candidate)]
    return Cause("mask", f"the reference attends where {shown[0]} says so, the candidate where {shown[1]} does")


def _masks(step: Step, queries: int, keys: int) -> list[tuple[str, Tensor]]:
    """The masks that a call was given, (1 or B, T or 1, S) bool, in whichever polarity; equal ones once."""
    made: list[tuple[str, Tensor]] = []
    for name, value in step.named.items():
        if not isinstance(value, Tensor) or "mask" not in name:
            continue
        mask = value.detach().cpu()
        mask = mask if mask.dtype == torch.bool else (mask > -1e4 if mask.dtype.is_floating_point else mask != 0)
        mask = mask[:, 0] if mask.ndim == 4 else mask
        if mask.ndim == 2:
            mask = mask[None] if tuple(mask.shape) == (queries, keys) and "padding" not in name else mask[:, None]
        if mask.shape[-1] == keys and mask.shape[-2] in (1, queries):
            made.append((name, mask))
    return made


def _scales(layer: MultiHeadAttention) -> Iterator[float]:
    yield 1.0
    for width in (layer.embed_dim, layer.num_heads, layer.head_dim):
        yield width**-0.5
        yield 1.0 / width
    for factor in (0.5, 2.0, 4.0):
        yield factor * layer.head_dim**-0.5
    yield layer.head_dim**0.5
