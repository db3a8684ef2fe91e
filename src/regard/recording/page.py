"""From records to the plain data that the HTML explorer shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from regard.core.errors import CaptureError
from regard.html.page_data import LayerMaps, PageData, Segment, TokenSequence
from regard.recording.record import Record

if TYPE_CHECKING:
    from regard.recording.capture import capture
    from regard.recording.store import Saved

TRUST = ("agreement", "sink", "output")


def page_data(cap: capture | Saved, *, sample: int = 0, run: int = 0, title: str | None = None) -> PageData:
    """What `html.build.build_page` needs, for one sample and sequence.

    Raises:
        CaptureError: There is no such sample or run.
    """
    records = [r for r in cap.records if r.sample == sample and r.run == run]
    if not records:
        known = sorted({(r.sample, r.run) for r in cap.records})
        raise CaptureError(f"there is no record of sample {sample}, run {run}; (sample, run) are {known}")
    sides: dict[tuple[str, int], int] = {}
    sequences: list[TokenSequence] = []
    layers = []
    for record in records:
        names = (
            ("text", "text")
            if record.kind == "self"
            else (("channels", "channels") if record.kind == "channel" else ("target", "source"))
        )
        queries, keys = (
            _side(sides, sequences, name, n, cap, record) for name, n in zip(names, (record.queries, record.keys))
        )
        layers.append(_maps(record, queries, keys))
    model = getattr(cap, "model_name", None) or type(getattr(cap, "model", None)).__name__
    notes = sorted({note for r in records for note in r.notes})
    return PageData(title or f"{model}: attention", sequences, layers, notes, list(cap.missed))


def _side(sides: dict, sequences: list[TokenSequence], name: str, size: int, cap: Any, record: Record) -> int:
    if (name, size) not in sides:
        sides[name, size] = len(sequences)
        tokens = cap.tokens
        labels = tokens.labels if tokens is not None and len(tokens) == size else [str(i) for i in range(size)]
        segments = [Segment(n, a, b) for n, a, b in record.segments if b <= size]
        sequences.append(TokenSequence(name, labels, segments))
    return sides[name, size]


def _maps(record: Record, queries: int, keys: int) -> LayerMaps:
    segments = record.segment_map if record.segment_map is not None else None
    rows = {}
    if record.rows is not None and record.row_weights is not None:
        rows = {int(q): record.row_weights[:, i].numpy() for i, q in enumerate(record.rows.tolist())}
    scores = {name: x.tolist() for name, x in record.scores.items() if name not in TRUST}
    allowed = None
    if record.weights is not None and record.causal:
        T, S = record.weights.shape[1:]
        allowed = np.arange(S)[None] <= np.arange(T)[:, None] + record.offset
    facts = {
        "kernel": record.kernel,
        "source": record.source,
        "dtype": record.dtype,
        "where": record.where,
        "mask": record.mask_digest or "none",
    }
    return LayerMaps(
        layer=record.layer, path=record.path, heads=record.head_names, kind=record.kind, queries=queries, keys=keys,
        weights=_array(record.weights), rows=rows, pooled=_array(record.pooled), peak=_array(record.pooled_max),
        even=_array(record.pooled_even), query_edges=np.array(record.query_edges), key_edges=np.array(record.key_edges),
        received=None if record.received is None else (record.received / max(1, record.queries)).numpy(),
        series={name: x.numpy() for name, x in record.series.items()}, scores=scores,
        trust={name: record.scores[name].tolist() for name in TRUST if name in record.scores},
        segment_mass=_array(segments), allowed=allowed, facts=facts,
    )  # fmt: skip


def _array(x: Tensor | None) -> np.ndarray | None:
    return None if x is None else x.float().numpy()
