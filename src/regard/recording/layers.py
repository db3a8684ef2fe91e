"""From attention sites to records: numbers the layers, stitches prefill and decode steps, keeps to the budget.

Axes: H heads, T queries, S keys, R chosen rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.errors import CaptureError
from regard.intercept.site import HIDDEN
from regard.recording.finished import Track, finished
from regard.recording.heads import Attention, output_projection
from regard.recording.likeness import output_cosine
from regard.recording.record import Record
from regard.recording.scores import output_share
from regard.recording.selfcheck import disagreement
from regard.recording.summary import Summary
from regard.recording.summary_blocks import add_in_blocks, in_blocks
from regard.recording.weighing import mask_digest, outputs, tiles_of


@dataclass
class Wanted:
    """What was asked for; None means all."""

    level: str
    layers: list | None
    heads: list[int] | None
    queries: list[int] | None
    segments: list[tuple[str, int, int]]
    samples: list[int] | None


class Layers:
    """All tracks of a capture."""

    def __init__(self, wanted: Wanted, budget: int, ids: Tensor | None = None):
        self.wanted, self.budget, self.ids = wanted, budget, ids
        self.numbers: dict[tuple[str, int], int] = {}  # (path, which site of that module call) -> layer
        self.tracks: dict[tuple[int, int], list[Track]] = {}  # (layer, sample) -> runs
        self.missed: list[str] = []
        self.over = ""
        self.kept = 0
        self.step = -1
        self.run = 0
        self.heads_seen, self.samples_seen = 0, 0
        self._places: dict[tuple[str, int], int] = {}
        self._decided = False

    def take(self, attention: Attention, step: int) -> None:
        """Consume one site. `step` counts the calls of the whole model."""
        if step != self.step:
            self.step, self._decided = step, False
        layer = self._number(attention)
        self.heads_seen, self.samples_seen = (
            max(self.heads_seen, attention.heads),
            max(self.samples_seen, attention.batch),
        )
        if not self._wants(layer, attention.site.path):
            return
        heads = [h for h in self.wanted.heads or range(attention.heads) if h < attention.heads]
        samples = [
            b
            for b in (range(attention.batch) if self.wanted.samples is None else self.wanted.samples)
            if b < attention.batch
        ]
        problem = disagreement(attention)
        if problem:
            self.missed.append(f"layer {layer} {attention.site.path}: {problem}")
            return
        for sample in samples:
            if heads:
                self._grow(self._track(layer, sample, attention, heads), attention, sample, heads)

    def _number(self, attention: Attention) -> int:
        """The layer's number: by module path, and by order among the sites of one call of that module."""
        site = attention.site
        call = (site.path, site.call)
        place = self._places[call] = self._places.get(call, -1) + 1
        return self.numbers.setdefault((site.path, place), len(self.numbers))

    def _wants(self, layer: int, path: str) -> bool:
        asked = self.wanted.layers
        return asked is None or any(a == layer if isinstance(a, int) else a in path for a in asked)

    def _track(self, layer: int, sample: int, attention: Attention, heads: list[int]) -> Track:
        runs = self.tracks.setdefault((layer, sample), [])
        if runs and self._continues(runs[-1], attention):
            return runs[-1]
        site = attention.site
        record = Record(
            layer=layer, path=site.path, kind=attention.kind, source=site.kind, kernel=site.kernel, where=site.where,
            sample=sample, run=len(runs), steps=0, heads=len(heads), kv_heads=attention.kv_heads, queries=0, keys=0,
            offset=_offset(attention), dtype=_dtype(attention), level=self.wanted.level, causal=False, head_names=heads,
            mask_digest=mask_digest(attention), notes=list(attention.notes), segments=self.wanted.segments,
        )  # fmt: skip
        ids = self.ids if attention.kind == "self" else None
        summary = Summary(heads, attention.queries, attention.keys, self.wanted.segments, ids)
        runs.append(Track(record, summary))
        return runs[-1]

    def _continues(self, track: Track, attention: Attention) -> bool:
        """Whether a call goes on with the sequence of the last one: a decode step."""
        last, T, S = track.record, attention.queries, attention.keys
        if len(last.head_names) > attention.heads or last.kind == "channel":
            return False
        if last.kind == "cross":
            return last.keys == S and T == 1
        total = last.offset + last.queries + T
        room = total <= S and last.keys <= S  # a cache that grew, or one of fixed length that has room
        rolling = total > S and last.keys >= S  # a window of the last keys
        return T < S and (room or rolling)

    def _grow(self, track: Track, attention: Attention, sample: int, heads: list[int]) -> None:
        record, summary = track.record, track.summary
        T, S = attention.queries, attention.keys
        offset = record.offset + record.queries if record.kind == "self" else 0
        first = (
            max(0, offset + T - S) if record.kind == "self" and record.steps else 0
        )  # a rolling cache let earlier keys go
        summary.begin(T, first + S, offset)
        chosen = self._chosen(record, T)
        cost = len(heads) * S * (T if self.wanted.level == "full" else len(chosen)) * 4 + 4 * len(heads) * (12 * T + S)
        self._count(cost, record, attention)
        whole = torch.zeros(len(heads), T, first + S) if self.wanted.level == "full" and not self.over else None
        exact = {i: torch.zeros(len(heads), first + S) for i in chosen} if not self.over else {}
        blocks = whole is None and not exact and first == 0 and in_blocks(attention)
        done = blocks and add_in_blocks(summary, attention, sample, heads)
        for tile, seen in () if done else tiles_of(attention, sample, heads):
            tile = replace(tile, keys=slice(tile.keys.start + first, tile.keys.stop + first))
            summary.add(tile, seen)
            if whole is not None:
                whole[tile.heads, tile.rows, tile.keys] = tile.weights.float().cpu()
            for i, row in exact.items():
                if tile.rows.start <= i < tile.rows.stop:
                    row[tile.heads, tile.keys] = tile.weights[:, i - tile.rows.start].float().cpu()
        track.rows += [(record.queries + i, row) for i, row in exact.items()]
        if whole is not None:
            track.full.append(whole)
        if record.steps == 0:
            self._outputs(track, attention, sample, heads)
        record.queries, record.keys, record.steps = record.queries + T, max(record.keys, first + S), record.steps + 1

    def _outputs(self, track: Track, attention: Attention, sample: int, heads: list[int]) -> None:
        """What each head adds to the model, and how alike that is."""
        output = outputs(attention, sample)
        if output is not None:
            project = output_projection(attention)
            every = heads == list(range(attention.heads))
            track.share = output_share(output if every else output[heads], project)
            cosine = output_cosine(output, project)
            track.cosine = None if cosine is None else cosine[heads][:, heads]

    def _chosen(self, record: Record, T: int) -> list[int]:
        """Queries of this call to keep exactly, counted within the call."""
        if self.wanted.level != "rows":
            return []
        if self.wanted.queries is None:
            spread = {round(i * (T - 1) / 15) for i in range(16)} if T > 16 else set(range(T))
            return sorted(spread)
        return [q - record.queries for q in self.wanted.queries if 0 <= q - record.queries < T]

    def _count(self, cost: int, record: Record, attention: Attention) -> None:
        self.kept += cost
        if self.kept > self.budget and not self.over:
            H, T, S = attention.heads, attention.queries, attention.keys
            fits = f"level 'summary' needs about {_size(4 * H * (12 * T + S))} per layer"
            self.over = (
                f"level {self.wanted.level!r} needs more than {_size(self.kept)} up to layer {record.layer} "
                f"({H} heads, {T} queries, {S} keys: {_size(cost)} for one layer and sample) and the budget is "
                f"{_size(self.budget)}; {fits}; or choose layers=, heads=, samples=, or a larger budget="
            )
            for runs in self.tracks.values():
                for track in runs:
                    track.full.clear()
                    track.rows.clear()

    def check(self) -> None:
        """Refuse layer, head, sample and query numbers that do not exist."""
        if not self.numbers:
            return
        asked = (
            ("layer", [a for a in self.wanted.layers or [] if isinstance(a, int)], len(self.numbers)),
            ("head", self.wanted.heads or [], self.heads_seen),
            ("sample", self.wanted.samples or [], self.samples_seen),
        )
        for name, numbers, count in asked:
            wrong = [n for n in numbers if not 0 <= n < count]
            if wrong:
                raise CaptureError(f"there is no {name} {wrong[0]}; {name}s are 0 to {count - 1}")
        for text in [a for a in self.wanted.layers or [] if isinstance(a, str)]:
            if not any(text in path for path, _ in self.numbers):
                raise CaptureError(
                    f"no attention layer has {text!r} in its path; paths are {sorted({p for p, _ in self.numbers})}"
                )
        longest = max((t.record.queries for runs in self.tracks.values() for t in runs), default=0)
        wrong = [q for q in self.wanted.queries or [] if not 0 <= q < longest]
        if wrong and longest:
            raise CaptureError(f"there is no query {wrong[0]}; queries are 0 to {longest - 1}")

    def records(self) -> list[Record]:
        """The finished records, by run, sample and layer."""
        tracks = [t for runs in self.tracks.values() for t in runs]
        tracks.sort(key=lambda t: (t.record.run, t.record.sample, t.record.layer))
        return [finished(track) for track in tracks]


def _offset(attention: Attention) -> int:
    """Key place of query 0 of a first call: 0, unless there are more keys; then the last query stands at the last key it sees."""
    T, S, site = attention.queries, attention.keys, attention.site
    if attention.kind != "self" or T == S or site.is_causal:
        return 0
    seen = None
    if attention.weights is not None:
        seen = attention.weights[..., -1, :] > 0
    elif site.bias is not None:
        seen = site.bias[..., -1, :] > HIDDEN
    last = (
        int(seen.reshape(-1, seen.shape[-1]).any(0).nonzero().max()) if seen is not None and bool(seen.any()) else S - 1
    )
    return max(0, last - (T - 1))


def _dtype(attention: Attention) -> str:
    tensor = attention.query if attention.query is not None else attention.weights
    return str(tensor.dtype).removeprefix("torch.") if tensor is not None else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    return ""
