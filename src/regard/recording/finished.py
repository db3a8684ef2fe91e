"""From what was added up over a layer's calls to its Record.

Axes: H heads, T queries, S keys, R chosen rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.recording.record import Record
from regard.recording.scores import finish
from regard.recording.summary import Summary

TOP = 8  # largest keys that are listed for each kept row


@dataclass
class Track:
    """One layer of one sample of one sequence, while it grows."""

    record: Record
    summary: Summary
    rows: list[tuple[int, Tensor]] = field(default_factory=list)  # (query, (H, S of its call))
    full: list[Tensor] = field(default_factory=list)  # (H, t, S of its call)
    share: Tensor | None = None
    cosine: Tensor | None = None  # (H, H)


def finished(track: Track) -> Record:
    record, summary = track.record, track.summary
    record.scores, record.series = finish(summary)
    if track.share is not None:
        record.scores["output"] = track.share
    record.output_cosine = track.cosine
    record.received, record.seen_by = summary.received, summary.seen_by
    record.pooled, record.pooled_max, record.pooled_even = summary.pooled.means()
    record.query_edges, record.key_edges = summary.pooled.edges(record.queries, record.keys)
    record.profile = summary.profile / max(1, record.queries)
    record.causal = record.kind == "self" and summary.future <= 1e-6 and record.queries > 1
    if summary.segments:
        record.segment_map = summary.segment_mass / summary.segment_rows.clamp(min=1)[None, :, None]
    if track.rows:
        record.rows = torch.tensor([q for q, _ in track.rows])
        record.row_weights = torch.stack([_wide(row, record.keys) for _, row in track.rows], 1)
        values, keys = record.row_weights.topk(min(TOP, record.keys), -1)
        record.top_values, record.top_keys = values, keys
    if track.full:
        record.weights = torch.cat([_wide(part, record.keys) for part in track.full], 1)
    return record


def _wide(x: Tensor, keys: int) -> Tensor:
    """Filled up with zeros: keys that did not exist yet."""
    return torch.nn.functional.pad(x, (0, keys - x.shape[-1]))
