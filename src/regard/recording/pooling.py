"""Pooled maps that grow: rows arrive in any number, keys may become more, and the map keeps at most 64 bins on a side.

Axes: H heads, t rows of one call, s keys, P and Q bins. A bin covers `width` places; when a side would pass 64 bins, neighbours
are merged and the width doubles, so what was summed before stays exact.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

BINS = 64


class PooledMap:
    """Sums and maxima of weights over bins of queries and keys."""

    def __init__(self, heads: int, queries: int, keys: int):
        self.query_width, self.key_width = -(-max(queries, 1) // BINS), -(-max(keys, 1) // BINS)
        self.total = torch.zeros(heads, 0, 0)
        self.largest = torch.zeros(heads, 0, 0)
        self.even = torch.zeros(1, 0, 0)
        self.count = torch.zeros(0)  # rows per query bin

    def fit(self, queries: int, keys: int) -> None:
        """Make room for this many query places and keys."""
        while queries > BINS * self.query_width:
            self._merge(1)
            self.query_width *= 2
        while keys > BINS * self.key_width:
            self._merge(2)
            self.key_width *= 2
        P, Q = -(-queries // self.query_width), -(-keys // self.key_width)
        self.total, self.largest, self.even = (_grown(x, P, Q) for x in (self.total, self.largest, self.even))
        self.count = torch.nn.functional.pad(self.count, (0, max(0, P - len(self.count))))

    def _merge(self, axis: int) -> None:
        self.total, self.even = _pairs(self.total, axis).sum(axis + 1), _pairs(self.even, axis).sum(axis + 1)
        self.largest = _pairs(self.largest, axis).amax(axis + 1)
        if axis == 1:
            self.count = _pairs(self.count, 0).sum(1)

    def add(self, heads: slice, places: Tensor, first_key: int, sums: Tensor, weights: Tensor) -> None:
        """Add rows. sums: (h, t, s), running sums of `weights` (h, t, s), of which key 0 is key `first_key` of the call."""
        rows = places // self.query_width
        edges, bins = self._edges(first_key, weights.shape[-1])
        if not bins:
            return
        upto = sums[..., [e - 1 for e in edges[1:]]]  # (h, t, bins)
        mass = torch.diff(upto, dim=-1, prepend=torch.zeros_like(upto[..., :1]))
        part = self.total[heads, :, bins[0] : bins[-1] + 1]
        part.index_add_(1, rows, mass.to(part.dtype).cpu())
        peaks = self._peaks(weights, edges)
        part = self.largest[heads, :, bins[0] : bins[-1] + 1]
        peaks = peaks.to(part.dtype).cpu()
        low, high = int(rows[0]), int(rows[-1])  # rows come in order
        for row in range(low, high + 1):
            of_row = slice(int((rows < row).sum()), int((rows <= row).sum())) if high > low else slice(None)
            part[:, row] = torch.maximum(part[:, row], peaks[:, of_row].amax(1))

    def _peaks(self, weights: Tensor, edges: list[int]) -> Tensor:
        """(h, t, bins): the largest weight between neighbouring edges; whole bins at once, the first and last apart."""
        whole = [(a, b) for a, b in pairwise(edges) if b - a == self.key_width]
        if not whole:
            return torch.stack([weights[..., a:b].amax(-1) for a, b in pairwise(edges)], -1)
        a, b = whole[0][0], whole[-1][1]
        found = [weights[..., a:b].unflatten(-1, (-1, self.key_width)).amax(-1)]
        if a > 0:
            found.insert(0, weights[..., :a].amax(-1, keepdim=True))
        if b < edges[-1]:
            found.append(weights[..., b : edges[-1]].amax(-1, keepdim=True))
        return torch.cat(found, -1)

    def add_even(self, places: Tensor, first_key: int, even: Tensor) -> None:
        """Add the rows of an even spread, (t, s); and count the rows."""
        rows = places // self.query_width
        self.count.index_add_(0, rows, torch.ones(len(rows)))
        edges, bins = self._edges(first_key, even.shape[-1])
        if bins:
            sums = torch.nn.functional.pad(even.cumsum(-1, dtype=torch.float32), (1, 0))
            mass = (sums[:, edges[1:]] - sums[:, edges[:-1]]).cpu()
            self.even[0, :, bins[0] : bins[-1] + 1].index_add_(0, rows, mass)

    def add_bins(self, head: int, rows: Tensor, first: int, mass: Tensor, peaks: Tensor) -> None:
        """Add rows of one head that are summed over bins already: mass, peaks (t, bins) from bin `first` on; rows (t,) of the map."""
        at = slice(first, first + mass.shape[1])
        self.total[head, :, at].index_add_(0, rows, mass.to(self.total.dtype).cpu())
        index = rows[:, None].expand(-1, mass.shape[1])
        self.largest[head, :, at].scatter_reduce_(0, index, peaks.to(self.largest.dtype).cpu(), "amax")

    def add_even_bins(self, rows: Tensor, even: Tensor) -> None:
        """Add the rows of an even spread that is summed over all bins, (t, Q); and count the rows."""
        self.count.index_add_(0, rows, torch.ones(len(rows)))
        self.even[0].index_add_(0, rows, even.to(self.even.dtype))

    def _edges(self, first: int, size: int) -> tuple[list[int], list[int]]:
        """Limits of the key bins inside a run of keys, counted from its first; and the bins."""
        if size == 0:
            return [], []
        bins = list(range(first // self.key_width, (first + size - 1) // self.key_width + 1))
        return [0, *(b * self.key_width - first for b in bins[1:]), size], bins

    def means(self) -> tuple[Tensor, Tensor, Tensor]:
        """(H, P, Q) mean mass of a row, (H, P, Q) largest weight, (P, Q) mean of the even spread."""
        count = self.count.clamp(min=1)[:, None]
        return self.total / count, self.largest, self.even[0] / count

    def edges(self, queries: int, keys: int) -> tuple[list[int], list[int]]:
        """The limits of the bins, P + 1 and Q + 1."""
        return (
            [*range(0, queries, self.query_width), queries],
            [*range(0, keys, self.key_width), keys],
        )


def _grown(x: Tensor, P: int, Q: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, max(0, Q - x.shape[2]), 0, max(0, P - x.shape[1])))


def _pairs(x: Tensor, axis: int) -> Tensor:
    """Split an axis into (ceil(n / 2), 2), filled with zeros."""
    if x.shape[axis] % 2:
        pad = [0, 0] * (x.dim() - 1 - axis) + [0, 1]
        x = torch.nn.functional.pad(x, pad)
    return x.unflatten(axis, (x.shape[axis] // 2, 2)) if x.shape[axis] else x.unsqueeze(axis + 1)
