"""Attention weights a few rows at a time: everything about T x S weights, with memory for a tile of them.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head; h, t, s: those of one tile.
A tile holds whole rows, so each row is normalised at once and any statistic of it is exact. Keys that no row of a tile sees
are left out at both ends: causal masks cost half, windows cost their width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.call import Call

TILE_BYTES = 4 << 20  # of scores: large enough for the matrix product, small enough for the cache


@dataclass
class Tile:
    """Weights of some heads and rows of one sample. `weights` is a buffer that the next tile overwrites.

    Attributes:
        sample: Which of the B samples.
        heads, rows, keys: Slices of the query heads, queries and keys that the tile covers; weights elsewhere are 0.
        weights: (h, t, s), after softmax, float32 (float64 for float64 inputs). Rows that see no key are 0.
        lse: (h, t), log of the sum of exponentials, the sink included; -inf where no key is seen.
        entropy: (h, t), -sum(w ln w) in nats.
        largest: (h, t), the largest weight.
        unsure, attend: The mask, (h or 1, t, m), of the keys in the slice `unsure` of `keys`; the others are all seen.
    """

    sample: int
    heads: slice
    rows: slice
    keys: slice
    weights: Tensor
    lse: Tensor
    entropy: Tensor
    largest: Tensor
    unsure: slice | None = None
    attend: Tensor | None = None

    def shown(self) -> Tensor:
        """(h or 1, t, s) bool: whether the mask lets the row see the key."""
        t, s = self.weights.shape[-2:]
        seen = torch.ones(1, t, s, dtype=torch.bool, device=self.weights.device)
        if self.attend is not None and self.unsure is not None:
            seen = seen.expand(self.attend.shape[0], -1, -1).clone()
            seen[..., self.unsure] = self.attend
        return seen


@torch.no_grad()
def row_tiles(call: Call, *, tile_bytes: int = TILE_BYTES, samples: Iterable[int] | None = None) -> Iterator[Tile]:
    """The tiles of a call, sample by sample, heads by heads, rows by rows. Extra memory: two tiles and one head's keys.

    Args:
        samples: Which samples; None is all.
    """
    B, H, T, S = call.sizes
    if 0 in (B, H, T, S):
        return
    exact = torch.promote_types(call.query.dtype, torch.float32)
    shared, rows = _tile_shape(call, tile_bytes)
    heads = shared * call.group
    buffers = torch.empty(2, heads * rows * S, dtype=exact, device=call.query.device)
    for sample in range(B) if samples is None else samples:
        keys = call.key[sample].to(exact)
        for start in range(0, T, rows):
            at = slice(start, min(start + rows, T))
            shared_view = None
            for first in range(0, H, heads):
                chosen = slice(first, min(first + heads, H))
                if shared_view is None or shared_view.per_head:
                    shared_view = _view(call, sample, chosen, at)
                key = keys[chosen.start // call.group : chosen.stop // call.group]
                yield _tile(call, sample, chosen, at, key, shared_view, buffers)


def _tile_shape(call: Call, tile_bytes: int) -> tuple[int, int]:
    """(key heads, rows) of one tile."""
    _, _, T, S = call.sizes
    room = max(1, tile_bytes // (4 * S * call.group))  # rows of one group
    if room >= T:
        return min(call.key.shape[1], max(1, room // T)), T
    return 1, min(T, max(16, room))


class _View(NamedTuple):
    """Which keys a tile needs (`keys`), and the mask (h or 1, t, m) of those keys that not all rows see (`unsure`)."""

    keys: slice
    unsure: slice  # inside `keys`
    attend: Tensor | None
    per_head: bool


def _tile(call: Call, sample: int, heads: slice, rows: slice, key: Tensor, view: _View, buffers: Tensor) -> Tile:
    keys, attend = view.keys, view.attend
    h, t, s = heads.stop - heads.start, rows.stop - rows.start, keys.stop - keys.start
    scores, spare = (b[: h * t * s].view(h, t, s) for b in buffers)
    query = call.query[sample, heads, rows].to(key.dtype).mul(call.scale).reshape(key.shape[0], -1, key.shape[2])
    torch.bmm(query, key[:, keys].mT, out=scores.view(key.shape[0], -1 if s else h // key.shape[0] * t, s))
    if call.softcap is not None:
        scores.div_(call.softcap).tanh_().mul_(call.softcap)
    if call.bias is not None:
        scores.add_(_part(call.bias, sample, heads, rows, keys))
    if attend is not None:
        scores[..., view.unsure].masked_fill_(~attend, -torch.inf)
    top = scores.amax(-1, keepdim=True) if s else scores.new_full((h, t, 1), -torch.inf)
    highest = top
    sink = None if call.sink is None else call.sink[heads].to(scores.dtype)[:, None, None]
    if sink is not None:
        top = torch.maximum(top, sink)
    dead = top == -torch.inf
    scores.sub_(top.masked_fill(dead, 0.0))
    weights = torch.exp(scores, out=spare)
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - top)
    total.masked_fill_(dead, 1.0)
    weights.div_(total)
    for part in [slice(None)] if call.bias is not None else [view.unsure] if attend is not None else []:
        scores[..., part].masked_fill_(weights[..., part] == 0, 0.0)  # not 0 * -inf; a NaN stays
    spread = scores.mul_(weights)  # sum(w * (x - top)) gives the entropy with one pass
    share = weights.sum(-1) if sink is not None else (~dead[..., 0]).to(weights.dtype)
    entropy = total[..., 0].log() * share - spread.sum(-1)
    lse = (top + total.log())[..., 0]
    largest = (torch.exp(highest - top.masked_fill(dead, 0.0)) / total)[..., 0]
    return Tile(sample, heads, rows, keys, weights, lse, entropy, largest, view.unsure, attend)


def _view(call: Call, sample: int, heads: slice, rows: slice) -> _View:
    """What the mask leaves for a tile to compute."""
    S = call.sizes[3]
    if call.mask is None:
        return _View(slice(0, S), slice(0, 0), None, False)
    form = call.structure
    if form.plain and form.banded and form.key_mask(call.places()) is None:
        assert isinstance(form.offset, int)  # a plain structure has no other
        return _band(
            form.left, form.right, slice(rows.start + form.offset, rows.stop + form.offset), S, call.query.device
        )
    wanted = torch.arange(rows.start, rows.stop, device=call.query.device)
    attend = replace(call, rows=wanted, _memo={}).attend()
    assert attend is not None
    attend = attend[sample if attend.shape[0] > 1 else 0]
    per_head = attend.shape[0] > 1
    attend = (attend[heads] if per_head else attend).expand(-1, -1, S)
    seen = attend.flatten(0, 1).any(0).nonzero()
    if not len(seen):
        return _View(slice(0, 0), slice(0, 0), None, per_head)
    keys = slice(int(seen[0]), int(seen[-1]) + 1)
    attend = attend[..., keys]
    partly = (~attend).flatten(0, 1).any(0).nonzero()
    if not len(partly):
        return _View(keys, slice(0, 0), None, per_head)
    unsure = slice(int(partly[0]), int(partly[-1]) + 1)
    return _View(keys, unsure, attend[..., unsure], per_head)


def _band(left: int | None, right: int | None, places: slice, S: int, device: torch.device) -> _View:
    """The view of rows that see keys from place - left to place + right: only the keys at the edges need a mask."""
    first = 0 if left is None else min(max(places.start - left, 0), S)
    end = S if right is None else min(max(places.stop + right, 0), S)
    if end <= first:
        return _View(slice(0, 0), slice(0, 0), None, False)
    low = first if left is not None or right is None else min(max(places.start + right + 1, first), end)
    if left is None and low >= end:
        return _View(slice(first, end), slice(0, 0), None, False)
    away = torch.arange(low, end, device=device)[None] - torch.arange(places.start, places.stop, device=device)[:, None]
    attend = torch.ones_like(away, dtype=torch.bool) if right is None else away <= right
    attend = attend if left is None else attend & (away >= -left)
    return _View(slice(first, end), slice(low - first, end - first), attend[None], False)


def _part(table: Tensor, sample: int, heads: slice, rows: slice, keys: slice) -> Tensor:
    """The tile's part of a tensor that broadcasts to (B, H, T, S)."""
    table = table.detach()[sample if table.shape[0] > 1 else 0]
    table = table[heads] if table.shape[0] > 1 else table
    table = table[:, rows] if table.shape[1] > 1 else table
    return table[..., keys] if table.shape[2] > 1 else table
