"""The weights of a captured site, a tile at a time: recomputed for kernels, read for open code. Never the T x S map of a kernel.

Axes: B samples, H heads, T queries, S keys, h, t, s: one tile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.attention import _narrowed
from regard.core.backends.open_form import softmax_weights
from regard.core.call import Call, prepare
from regard.core.mask.band import causal
from regard.core.mask.table import dense
from regard.core.tiles import TILE_BYTES, Tile, row_tiles
from regard.intercept.site import HIDDEN
from regard.recording.heads import Attention


class Seen(NamedTuple):
    """Which keys the rows of a tile may see, shared by the heads: made once for all of them where the mask is."""

    shown: Tensor | None  # (h or 1, t, s); None: every key of the call
    strict: bool  # keys that are not shown have weight 0 by construction


class Weighed(NamedTuple):
    """One tile, and what its rows may see."""

    tile: Tile
    seen: Seen


def tiles_of(attention: Attention, sample: int, heads: list[int]) -> Iterator[Weighed]:
    """Tiles of one sample; head i of a tile is `heads[i]` of the model."""
    if attention.weights is not None:
        yield from _read(attention, sample, heads)
    elif attention.site.asked is not None:
        yield from _asked(attention.site.asked, sample, heads)
    elif attention.query is not None and attention.key is not None:
        yield from _recomputed(attention, sample, heads)


def _asked(call: Call, sample: int, heads: list[int]) -> Iterator[Weighed]:
    """Tiles of a call of `regard.attention`, which states its own mask."""
    every = heads == list(range(call.sizes[1]))
    for tile in row_tiles(call, tile_bytes=TILE_BYTES, samples=[sample]):
        seen = None if call.bias is None and call.mask is None else _shown(call, tile)
        if every:
            yield Weighed(tile, Seen(seen, call.bias is None))
            continue
        for i, head in enumerate(heads):
            if tile.heads.start <= head < tile.heads.stop:
                at = slice(head - tile.heads.start, head - tile.heads.start + 1)
                parts = {n: getattr(tile, n)[at] for n in ("weights", "lse", "entropy", "largest")}
                shown = seen if seen is None or seen.shape[0] == 1 else seen[at]
                yield Weighed(replace(tile, heads=slice(i, i + 1), **parts), Seen(shown, call.bias is None))


def call_of(attention: Attention, sample: int, heads: list[int], rows: Tensor | None = None) -> Call:
    """The kernel's call for one sample and chosen heads, as `core` states it. rows: (R,) chosen queries, None = all."""
    site = attention.site
    if site.asked is not None:
        return _sample(_narrowed(site.asked, rows, torch.tensor(heads, device=site.asked.query.device)), sample)
    assert attention.query is not None
    assert attention.key is not None
    every = heads == list(range(attention.heads))
    at = slice(None) if every else heads
    group = attention.heads // attention.kv_heads
    query = attention.query[sample, at][None]
    key = attention.key[sample if attention.key.shape[0] > 1 else 0]
    key = (key if every else key[[h // group for h in heads]])[None]
    query, key = query.float() if query.dtype not in _FLOATS else query, key.to(query.dtype)
    bias, mask = _pick(site.bias, sample, at), None
    if site.is_causal:
        mask = causal(offset=0)
    if site.hidden is not None:
        hidden = _pick(site.hidden, sample, at)
        assert hidden is not None
        mask = dense(~hidden) if mask is None else dense(~hidden) & mask
    call = prepare(query, key, key, mask=mask, bias=bias, scale=site.scale)
    return call if rows is None else _narrowed(call, rows, None)


@torch.no_grad()
def outputs(attention: Attention, sample: int) -> Tensor | None:
    """(H, T, Dv) the heads' outputs, on the CPU; for a fast path that gives none, of at most 512 evenly spread queries."""
    if attention.output is not None:
        return attention.output[sample].detach().cpu()
    query, value = attention.query, attention.value
    if attention.site.kind != "native_mha" or query is None or value is None:
        return None
    rows = torch.linspace(0, attention.queries - 1, min(attention.queries, 512), device=query.device).round().long()
    weights = softmax_weights(call_of(attention, sample, list(range(attention.heads)), rows))
    return (weights[0] @ value[sample].to(weights.dtype)).cpu()


_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def _pick(x: Tensor | None, sample: int, heads) -> Tensor | None:
    """The part of a tensor that broadcasts to (B, H, T, S), as (1, h, T, S)."""
    if x is None:
        return None
    while x.dim() < 4:
        x = x.unsqueeze(0)
    x = x[sample if x.shape[0] > 1 else 0]
    return (x[heads] if x.shape[0] > 1 else x)[None]


def _recomputed(attention: Attention, sample: int, heads: list[int]) -> Iterator[Weighed]:
    call = call_of(attention, sample, heads)
    last: tuple[tuple, Seen] | None = None
    for tile in row_tiles(call, tile_bytes=TILE_BYTES):
        if call.bias is None and call.mask is None:
            yield Weighed(tile, Seen(None, True))
            continue
        per_head = (call.bias is not None and call.bias.shape[1] > 1) or (
            tile.attend is not None and tile.attend.shape[0] > 1
        )
        at = (tile.rows.start, tile.keys.start, tile.keys.stop, tile.heads.start if per_head else 0)
        if last is None or last[0] != at:
            last = (at, Seen(_shown(call, tile), call.bias is None))
        yield Weighed(tile, last[1])


def _shown(call: Call, tile: Tile) -> Tensor:
    shown = tile.shown()
    if call.bias is None:
        return shown
    bias = call.bias[tile.sample if call.bias.shape[0] > 1 else 0]
    bias = bias[tile.heads] if bias.shape[0] > 1 else bias
    bias = bias[:, tile.rows] if bias.shape[1] > 1 else bias
    bias = bias[..., tile.keys] if bias.shape[2] > 1 else bias
    return shown & (bias > HIDDEN)


def _sample(call: Call, sample: int) -> Call:
    """One sample of a call whose mask is written out."""
    attend, bias = call.attend(), call.bias
    memo = {} if attend is None else {"attend": attend[[sample if attend.shape[0] > 1 else 0]]}
    bias = bias if bias is None or bias.shape[0] == 1 else bias[[sample]]
    return replace(call, **{n: getattr(call, n)[[sample]] for n in ("query", "key", "value")}, bias=bias, _memo=memo)


def _read(attention: Attention, sample: int, heads: list[int]) -> Iterator[Weighed]:
    """Tiles of weights that the module itself made."""
    assert attention.weights is not None
    weights = attention.weights[sample if attention.weights.shape[0] > 1 else 0].detach()
    H, T, S = len(heads), *weights.shape[-2:]
    rows = max(1, min(T, TILE_BYTES // (4 * S * H)))
    masked = _filled(attention, sample)
    for start in range(0, T, rows):
        at = slice(start, min(start + rows, T))
        part = weights[heads, at] if weights.shape[0] > 1 else weights[:, at].expand(H, -1, -1)
        part = part.to(torch.promote_types(part.dtype, torch.float32))
        entropy = -torch.special.xlogy(part, part).sum(-1)
        lse, largest = torch.full_like(entropy, torch.nan), part.amax(-1)
        tile = Tile(0, slice(0, H), at, slice(0, S), part, lse, entropy, largest)
        if masked is None:
            yield Weighed(tile, Seen(part != 0, True))
        else:
            shown = ~masked[:, at] if masked.shape[1] > 1 else ~masked
            yield Weighed(tile, Seen(shown.expand(-1, at.stop - at.start, S), False))


def _filled(attention: Attention, sample: int) -> Tensor | None:
    """(1, T or 1, S) bool: where open code hid keys, from the masks it filled or added; None where that cannot be told."""
    site = attention.site
    found = None
    shape = site.shape
    if shape is None or any(s.op in ("mul", "cat", "constant_pad_nd") for s in site.before):
        return None
    for step in site.mask:
        mask = step.tensor
        assert mask is not None
        if step.op == "fill" and _low(step.value):
            hidden = mask != 0
        elif step.op == "where" and _low(step.value):
            hidden = (mask == 0) if step.keep else (mask != 0)
        elif step.op == "add" and mask.is_floating_point():
            hidden = mask <= HIDDEN
        else:
            continue
        try:
            hidden = hidden.expand(shape) if hidden.dim() <= len(shape) else None
        except RuntimeError:
            hidden = None
        if hidden is None:
            return None
        found = hidden if found is None else found | hidden
    if found is None:
        return None
    found = found.reshape(attention.batch, attention.heads, *shape[-2:])[sample]
    return found[:1] if bool((found == found[:1]).all()) else None


def _low(value: float | Tensor | None) -> bool:
    return value is not None and float(value) <= -50.0


def mask_digest(attention: Attention) -> str:
    """Sixteen hex digits of everything that hides or biases keys; "" where nothing does."""
    site, parts = attention.site, []
    if site.is_causal:
        parts.append(b"causal")
    if site.asked is not None and site.asked.mask is not None:
        parts.append(repr(site.asked.mask).encode())
    for x in (site.bias, site.hidden, *(s.tensor for s in site.mask if site.bias is None)):
        if x is not None and x.dim() >= 2:
            small = x.detach()[..., -256:, -256:].contiguous().cpu()
            small = small.float() if small.is_floating_point() else small.to(torch.uint8)
            parts += [str(tuple(x.shape)).encode(), small.numpy().tobytes()]
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16] if parts else ""
