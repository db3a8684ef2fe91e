"""Everything the level `summary` keeps of one layer and sample, added up tile by tile in O(T) memory.

Axes: H heads, T queries, S keys, h, t, s: one tile, G segments, K distance classes. `place` is where a query stands among the keys.
Formulas and sources are in `scores.py`; this file computes the sums that they need in one pass over the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.tiles import Tile
from regard.recording.pooling import PooledMap
from regard.recording.weighing import Seen

PAIRS = ("duplicate", "induction")
LOCAL, BOUNDARY, SAMPLED = 8, 4, 32
SERIES = ("entropy", "entropy_share", "max", "sink", "self", "previous", "next", "distance", "local", "row_sum")


class Summary:
    """Sums over the rows seen so far. Feed it tiles; `scores.finish` turns it into the numbers of a Record."""

    def __init__(
        self,
        heads: Sequence[int],
        queries: int,
        keys: int,
        segments: Sequence[tuple[str, int, int]] = (),
        ids: Tensor | None = None,
    ):
        H = len(heads)
        self.heads = list(heads)
        self.series: dict[str, list[Tensor]] = {name: [] for name in SERIES}
        self.received = torch.zeros(H, keys)
        self.seen_by = torch.zeros(keys, dtype=torch.int64)
        self.pooled = PooledMap(H, queries, keys)
        self.profile = torch.zeros(H, 1)
        self.hidden, self.first, self.last = torch.zeros(H), torch.zeros(H), torch.zeros(H)
        self.nucleus, self.sampled = torch.zeros(H), 0
        self.slash = torch.zeros(H, 0)
        self.segments = list(segments)
        self.segment_mass = torch.zeros(H, len(segments), len(segments))
        self.segment_rows = torch.zeros(len(segments))
        self.queries, self.keys = 0, keys
        self.ids = ids  # (S,) token ids of the keys, for duplicate and induction
        self.on_pairs = {} if ids is None else {n: torch.zeros(H) for n in PAIRS}
        self.has_pair = {name: torch.zeros(0, dtype=torch.bool) for name in self.on_pairs}  # which queries have one
        self._last: tuple[tuple, _Around] | None = None
        self.future = 0.0  # mass on keys after the query's own place

    def begin(self, queries: int, keys: int, offset: int) -> None:
        """A call with this many queries and keys begins; its query i stands at key place offset + i."""
        self.offset = offset
        self.base = self.queries  # how many rows earlier calls brought
        self.keys = max(self.keys, keys)
        grow = self.keys - self.received.shape[1]
        self.received = torch.nn.functional.pad(self.received, (0, grow))
        self.seen_by = torch.nn.functional.pad(self.seen_by, (0, grow))
        self.queries += queries
        self.pooled.fit(self.queries, self.keys)
        self.has_pair = {n: torch.nn.functional.pad(has, (0, queries)) for n, has in self.has_pair.items()}
        self.parts = {name: torch.zeros(len(self.heads), queries) for name in SERIES}
        for name in SERIES:
            self.series[name].append(self.parts[name])
        longest = max(self.keys, 1).bit_length() + 1
        self.profile = torch.nn.functional.pad(self.profile, (0, max(0, longest - self.profile.shape[1])))
        step = max(1, queries // SAMPLED)
        self.chosen = set(range(step - 1, queries, step)) if queries > 1 else {0}

    def add(self, tile: Tile, seen: Seen) -> None:
        """Add one tile of the call. Keys of the call outside `tile.keys` are hidden from all rows of the tile."""
        weights, keys, h = tile.weights, tile.keys, tile.heads
        rows = torch.arange(tile.rows.start, tile.rows.stop, device=weights.device)
        sums = (
            weights.cumsum(-1) if weights.shape[-1] else weights.new_zeros(*weights.shape[:2], 1)
        )  # mass so far, by key
        around = self._around(tile, rows + self.offset, seen)
        near = around.masses(sums)
        for name, values in self._per_query(tile, sums[..., -1], near, around).items():
            self.parts[name][h, tile.rows] = values.float().cpu()
        self.received[h, keys] += weights.sum(1).cpu()
        self.profile[h] += near[5:].sum(-1).T.float().cpu()
        self.future = max(self.future, float((sums[..., -1] - near[4]).max()))
        if not seen.strict and seen.shown is not None:
            self.hidden[h] += (weights * ~seen.shown).sum((1, 2)).float().cpu()  # exactly 0 where all are 0
        for total, (low, high) in ((self.first, (0, BOUNDARY)), (self.last, (self.keys - BOUNDARY, self.keys))):
            total[h] += weights[..., max(0, low - keys.start) : max(0, high - keys.start)].sum((1, 2)).float().cpu()
        self._add_maps(tile, seen, around, sums, (self.base + rows).cpu())
        self.add_segments(tile.heads, rows + self.offset, tile.keys, tile.weights)
        self.add_pairs(tile.heads, tile.rows, tile.keys, tile.weights)
        rows_kept = [r for r in range(tile.rows.start, tile.rows.stop) if r in self.chosen]
        if rows_kept:
            self.add_sample(
                tile.heads, rows_kept, tile.weights[:, [r - tile.rows.start for r in rows_kept]], keys.start
            )

    def _per_query(self, tile: Tile, mass: Tensor, near: Tensor, around: _Around) -> dict[str, Tensor]:
        """The series, (h, t) each, of a tile's rows."""
        found = {"entropy": tile.entropy, "row_sum": mass, "max": tile.largest}
        first = tile.weights.shape[-1] and tile.keys.start == 0
        found["sink"] = tile.weights[..., 0] if first else torch.zeros_like(mass)
        found["self"], found["previous"], found["next"], found["local"] = near[:4]
        found["distance"] = (tile.weights * around.apart).sum(-1)
        share = tile.entropy / around.count.clamp(min=2).log()
        found["entropy_share"] = torch.where(around.count > 1, share, torch.zeros_like(share))
        return found

    def _add_maps(self, tile: Tile, seen: Seen, around: _Around, sums: Tensor, place: Tensor) -> None:
        """Pooled maps, and once for all heads what an even spread would be."""
        (t, s), keys = tile.weights.shape[-2:], tile.keys
        if s:
            self.pooled.add(tile.heads, place, keys.start, sums, tile.weights)
        if tile.heads.start == 0:
            every = torch.ones(t, s, dtype=torch.bool, device=sums.device)
            even = seen.shown[0] if seen.shown is not None else every
            self.seen_by[keys] += even.sum(0).cpu()
            self.pooled.add_even(place, keys.start, even / around.count[0].clamp(min=1)[:, None])

    def _around(self, tile: Tile, place: Tensor, seen: Seen) -> _Around:
        """The geometry of a tile's rows, kept for the heads that share it."""
        shared = seen.shown is None or seen.shown.shape[0] == 1
        at = (self.base, tile.rows.start, tile.keys.start, tile.keys.stop, -1 if shared else tile.heads.start)
        if self._last is None or self._last[0] != at:
            self._last = (at, _Around(tile, place, seen.shown, self.profile.shape[1], self.keys))
        return self._last[1]

    def add_segments(self, heads: slice, place: Tensor, keys: slice, weights: Tensor) -> None:
        """Mass from segment to segment; weights: (h, t, s) of queries at `place` (t,) on the keys."""
        s = weights.shape[-1]
        if not self.segments or s == 0:
            return
        inside = torch.stack([(place >= a) & (place < b) for _, a, b in self.segments]).to(weights.dtype)  # (G, t)
        for k, (_, a, b) in enumerate(self.segments):
            part = weights[..., min(max(a - keys.start, 0), s) : min(max(b - keys.start, 0), s)]
            if part.shape[-1]:
                self.segment_mass[heads, :, k] += torch.einsum("gt,ht->hg", inside, part.sum(-1)).float().cpu()
        if heads.start == 0 and keys.start == 0:
            self.segment_rows += inside.sum(1).float().cpu()

    def add_pairs(self, heads: slice, rows: slice, keys: slice, weights: Tensor) -> None:
        """Weight on earlier equal tokens, and on the keys right after them."""
        if self.ids is None or len(self.ids) < self.keys:
            return
        ids = self.ids.to(weights.device)
        place = torch.arange(rows.start, rows.stop, device=ids.device) + self.offset
        key = torch.arange(keys.start, keys.stop, device=ids.device)
        for name in PAIRS:
            back = 0 if name == "duplicate" else 1
            same = ids[place][:, None] == ids[(key - back).clamp(min=0)][None]
            same &= (key >= back)[None] & (key[None] - back < place[:, None])
            self.on_pairs[name][heads] += torch.einsum("hts,ts->h", weights, same.to(weights.dtype)).float().cpu()
            if heads.start == 0:
                at = slice(self.base + rows.start, self.base + rows.stop)
                self.has_pair[name][at] |= same.any(-1).cpu()

    def add_sample(self, heads: slice, rows: list[int], some: Tensor, low: int) -> None:
        """Nucleus sizes and diagonals of a few whole rows, (h, r, s), whose first key is `low`: they need rows sorted or shifted."""
        if some.shape[-1] == 0:
            return
        some = some.float()
        ordered = some.sort(-1, descending=True).values.cumsum(-1)
        self.nucleus[heads] += ((ordered < 0.9 * ordered[..., -1:]).sum(-1) + 1).float().sum(1).cpu()
        self.sampled += len(rows) if heads.start == 0 else 0
        self.slash = torch.nn.functional.pad(self.slash, (0, max(0, self.keys - self.slash.shape[1])))
        for at, row in enumerate(rows):
            place = min(row + self.offset, self.keys - 1)
            high = min(low + some.shape[-1], place + 1)
            if high > low:
                back = some[:, at, : high - low].flip(-1).cpu()  # distance place - high + 1 first
                self.slash[heads, place - high + 1 : place - low + 1] += back


class _Around:
    """What a tile's rows have around their own places: key distances (t, s), visible keys (h or 1, t), limits of ranges."""

    def __init__(self, tile: Tile, place: Tensor, shown: Tensor | None, classes: int, keys: int):
        t, s = tile.weights.shape[-2:]
        exact = tile.weights.dtype
        self.s = s
        key = torch.arange(tile.keys.start, tile.keys.stop, device=place.device, dtype=exact)
        self.apart = (place.to(exact)[:, None] - key[None]).abs_()
        self.count = shown.sum(-1) if shown is not None else torch.full((1, t), s, device=place.device)
        ranges = [(0, 0), (-1, -1), (1, 1), (-LOCAL, LOCAL), (-keys, 0)]
        powers = [(1 << (k - 1), (1 << k) - 1) for k in range(1, classes)]
        ranges += [(0, 0), *powers, *((-high, -low) for low, high in powers)]
        self.classes = classes
        relative = torch.tensor([[low, high + 1] for low, high in ranges], device=place.device)
        limits = (place - tile.keys.start)[:, None, None] + relative[None]  # (t, ranges, 2), exclusive
        self.limits = limits.clamp(0, s).flatten(1)

    def masses(self, sums: Tensor) -> Tensor:
        """(5 + classes, h, t): weight on self, previous, next, local, all up to the place; then on each class of distance."""
        index = (self.limits - 1).clamp(min=0)[None].expand(sums.shape[0], -1, -1)
        upto = sums.gather(-1, index).masked_fill(self.limits[None] == 0, 0.0).unflatten(-1, (-1, 2))
        mass = (upto[..., 1] - upto[..., 0]).movedim(-1, 0)
        after, before = mass[5 : 5 + self.classes], mass[5 + self.classes :]
        return torch.cat([mass[:5], after[:1], after[1:] + before])
