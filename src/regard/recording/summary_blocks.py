"""The sums of a long layer's Summary from blocks of weights: for kernels that give the sum of each row, without mask or causal.

Axes: H heads, T queries, S keys, t, s: one block, Q bins of keys, K distance classes. `place` = offset + row is where a query stands.
A block of keys far from the diagonal has one sign of distance and mostly one class of it, so few passes say everything about it.
The numbers are those of `summary.Summary.add`; the tests compare both with the full map.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.block_tiles import KEYS, ROWS, Block, block_tiles, row_weights
from regard.recording.heads import Attention
from regard.recording.summary import BOUNDARY, LOCAL, Summary

LONG = 2048  # keys from which blocks are faster than whole rows
ONE = 1e-3  # how far a row may be from 1 for the kernel's sums to be believed


def in_blocks(attention: Attention) -> bool:
    """Whether the call can be summed in blocks: float32 or 64, the kernel's sums known, no mask but its causal flag."""
    site, query, key = attention.site, attention.query, attention.key
    if (
        site.kind != "fused"
        or site.lse is None
        or site.bias is not None
        or site.hidden is not None
        or site.scale is None
    ):
        return False
    if query is None or key is None or query.dtype not in (torch.float32, torch.float64) or key.dtype != query.dtype:
        return False
    if attention.weights is not None or attention.keys < LONG or attention.queries < ROWS:
        return False
    expected = (attention.batch, attention.heads, attention.queries)
    return tuple(site.lse.shape) == expected and key.dim() == 4 and not bool(site.lse.isnan().any())


@torch.no_grad()
def add_in_blocks(summary: Summary, attention: Attention, sample: int, heads: list[int]) -> bool:
    """Add one whole call to a summary that has begun it; False, with nothing added, where the kernel's sums do not fit the scores."""
    site = attention.site
    assert attention.query is not None
    assert attention.key is not None
    assert site.lse is not None
    every = heads == list(range(attention.heads))
    chosen = slice(None) if every else heads  # a slice copies nothing
    query, lse = attention.query[sample, chosen].detach(), site.lse[sample, chosen].detach()
    key = attention.key[sample if attention.key.shape[0] > 1 else 0].detach()
    if not every:
        key = key[[h * key.shape[0] // attention.heads for h in heads]]
    given = {"scale": float(site.scale or 1.0), "causal": site.is_causal}
    rows = torch.tensor(sorted(summary.chosen), device=query.device)
    some = row_weights(query, key, lse, rows, **given)
    sums = some.sum(-1)
    if bool(((sums - 1).abs() > ONE).any()):
        return False
    summary.add_sample(slice(0, len(heads)), rows.tolist(), some, 0)
    width = summary.pooled.key_width
    step = width * max(1, KEYS // width)
    passes = _Pass(summary, site.is_causal, len(heads), query)
    for block in block_tiles(query, key, lse, **given, row_step=max(1, ROWS * KEYS // step), key_step=step):
        passes.add(block)
    passes.close()
    return True


class _Pass:
    """One call's blocks, in the order of `block_tiles`: rows by rows, then heads, then keys."""

    def __init__(self, summary: Summary, causal: bool, heads: int, like: Tensor):
        self.summary, self.causal, self.like = summary, causal, like
        self.rows: slice | None = None
        self.ramp = torch.arange(0, device=like.device)
        self.series: dict[str, Tensor] = {}
        self.heads = heads

    def add(self, block: Block) -> None:
        if block.rows != self.rows:
            self.close()
            self._open(block.rows)
        summary, h, w = self.summary, block.head, block.weights
        own = {name: part[h] for name, part in self.series.items()}
        mass = self._bins(block)
        own["entropy"] += block.entropy
        own["row_sum"] += mass
        if block.keys.start == 0:
            own["sink"] += w[:, 0]
            summary.first[h] += w[:, :BOUNDARY].sum().cpu()
        tail = summary.keys - BOUNDARY
        if block.keys.stop > tail:
            summary.last[h] += w[:, max(0, tail - block.keys.start) :].sum().cpu()
        received = torch.mv(w.mT, torch.ones(len(w), dtype=w.dtype, device=w.device))
        summary.received[h, block.keys] += received.cpu()
        summary.add_segments(slice(h, h + 1), self.place, block.keys, w[None])
        summary.add_pairs(slice(h, h + 1), block.rows, block.keys, w[None])
        self._distances(block, own, mass)

    def _open(self, rows: slice) -> None:
        device, exact = self.like.device, self.like.dtype
        self.rows = rows
        self.place = torch.arange(rows.start, rows.stop, device=device) + self.summary.offset  # (t,)
        names = ("entropy", "row_sum", "max", "sink", "self", "previous", "next", "local", "distance", "after")
        self.series = {n: torch.zeros(self.heads, len(self.place), dtype=exact, device=device) for n in names}

    def close(self) -> None:
        """Write the rows that are done."""
        if self.rows is None:
            return
        summary, keys = self.summary, self.summary.keys
        limit = (self.place + 1).clamp(max=keys) if self.causal else torch.full_like(self.place, keys)  # keys in sight
        found = self.series
        share = found["entropy"] / limit.clamp(min=2).log()
        found["entropy_share"] = torch.where(limit > 1, share, torch.zeros_like(share))
        summary.future = max(summary.future, float(found.pop("after").max()))
        for name, values in found.items():
            summary.parts[name][:, self.rows] = values.float().cpu()
        self._even(limit.cpu())
        self.rows = None

    def _even(self, limit: Tensor) -> None:
        """What an even spread would be: row i sees the first `limit` keys."""
        summary, pooled = self.summary, self.summary.pooled
        keys, width = summary.keys, pooled.key_width
        ends = torch.bincount(limit, minlength=keys + 1)
        summary.seen_by[:keys] += len(limit) - ends.cumsum(0)[:keys]
        bins = -(-keys // width)
        edge = torch.arange(bins)[None] * width
        inside = (limit[:, None] - edge).clamp(min=0, max=width)  # (t, Q)
        rows = (summary.base + torch.arange(self.rows.start, self.rows.stop)) // pooled.query_width  # type: ignore[union-attr]
        pooled.add_even_bins(rows, inside / limit.clamp(min=1)[:, None])

    def _bins(self, block: Block) -> Tensor:
        """(t,) the block's mass per row; the pooled maps and the largest weight by the way."""
        summary, pooled, w = self.summary, self.summary.pooled, block.weights
        first, width = block.keys.start // pooled.key_width, pooled.key_width
        whole = w.shape[1] // width * width
        mass, peaks = [], []
        for part in (w[:, :whole].unflatten(1, (-1, width)) if whole else None, w[:, None, whole:]):
            if part is not None and part.shape[-1]:
                mass.append(part.sum(-1))
                peaks.append(part.amax(-1))
        sums, peak = torch.cat(mass, 1), torch.cat(peaks, 1)  # (t, Q)
        rows = (summary.base + torch.arange(block.rows.start, block.rows.stop)) // pooled.query_width
        pooled.add_bins(block.head, rows, first, sums, peak)
        largest = self.series["max"][block.head]
        torch.maximum(largest, peak.amax(-1), out=largest)
        return sums.sum(-1)

    def _distances(self, block: Block, own: dict[str, Tensor], mass: Tensor) -> None:
        """Distance, profile, mass after the query's own place, and what stands next to it."""
        first, last = int(self.place[0]), int(self.place[-1])
        low, high = block.keys.start, block.keys.stop - 1
        near, far = (first - high, last - low) if high <= first else (low - last, high - first)
        aside = high <= first or low >= last  # all keys on one side of all rows
        if aside:
            ramp = self._ramp(len(block.spare[0]))
            moment = torch.mul(block.weights, ramp, out=block.spare).sum(-1)  # counted from the block's first key
            gap = (self.place - low).to(mass.dtype)
            own["distance"] += mass * gap - moment if high <= first else moment - mass * gap
            if low >= last:
                own["after"] += mass if low > last else mass - block.weights[:, 0] * (self.place == low)
        else:
            exact = block.weights.dtype
            key = torch.arange(low, high + 1, device=self.place.device, dtype=exact)
            away = key[None] - self.place.to(exact)[:, None]
            if not self.causal:
                own["after"] += torch.mul(block.weights, away > 0, out=block.spare).sum(-1)
            own["distance"] += torch.mul(block.weights, away.abs_(), out=block.spare).sum(-1)
        profile = self.summary.profile
        if aside and near > 0 and near.bit_length() == far.bit_length():
            profile[block.head, near.bit_length()] += float(mass.sum())
        else:
            by_class = _by_distance(block, self.place, profile.shape[1])
            profile[block.head] += by_class.float().cpu()
        if low <= last + LOCAL and high >= first - LOCAL:
            self._neighbours(block, own)

    def _neighbours(self, block: Block, own: dict[str, Tensor]) -> None:
        step = torch.arange(-LOCAL, LOCAL + 1, device=self.place.device)
        key = self.place[:, None] + step - block.keys.start  # (t, 2 LOCAL + 1)
        s = block.weights.shape[1]
        around = block.weights.gather(1, key.clamp(0, s - 1)).masked_fill((key < 0) | (key >= s), 0.0)
        own["local"] += around.sum(-1)
        for name, at in (("previous", LOCAL - 1), ("self", LOCAL), ("next", LOCAL + 1)):
            own[name] += around[:, at]

    def _ramp(self, size: int) -> Tensor:
        if len(self.ramp) < size:
            self.ramp = torch.arange(size, device=self.like.device, dtype=self.like.dtype)
        return self.ramp[:size]


def _by_distance(block: Block, place: Tensor, classes: int) -> Tensor:
    """(K,) mass at distances 0, 1, 2-3, 4-7, ... of the block: its diagonals, summed once."""
    t, s = block.weights.shape
    pitch = s + t
    wide = block.weights.new_zeros(
        t * pitch + t
    )  # zeros on both sides of every row: a diagonal never meets another row
    wide[t : t + t * pitch].view(t, pitch)[:, :s] = block.weights
    diagonal = wide.as_strided((t, pitch - 1), (pitch + 1, 1), 1).sum(0)  # key - row from 1 - t to s - 1
    step = torch.arange(1 - t, s, device=place.device) + block.keys.start - place[0]
    kind = torch.where(step == 0, 0, step.abs().clamp(min=1).double().log2().floor().long() + 1)
    return torch.zeros(classes, dtype=wide.dtype, device=wide.device).index_add_(0, kind, diagonal)
