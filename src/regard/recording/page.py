"""From records to the plain data that the HTML explorer shows: one sample, one sequence, sides with their tokens.

Axes: H heads, T queries, S keys, P x Q pooled bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.errors import CaptureError
from regard.html.build import write_page
from regard.html.page_data import LayerMaps, PageData, Segment, TokenSequence
from regard.recording.record import Record
from regard.recording.tokens import Tokens

TRUST = ("agreement", "sink", "output")  # scores that say how far a map can be believed; printed beside it


def page_of(
    records: Sequence[Record],
    tokens: Any = None,
    *,
    sample: int | None = None,
    run: int | None = None,
    title: str = "Attention",
    missed: Sequence[str] = (),
    trust: Mapping[str, Sequence[Sequence[float | None] | None]] | None = None,
) -> PageData:
    """What `html.build.build_page` needs.

    Args:
        records: Of one capture.
        tokens: Labels of the sequence, `Tokens`, or a mapping with "source" and "target" for two sequences; None = positions.
        sample, run: Which to show; None = the first, and a note says so where there are others.
        missed: What was seen and not captured.
        trust: More figures beside the maps: name -> per record, H numbers or None.

    Raises:
        CaptureError: No record, no such sample or run, or tokens that do not match the lengths.
    """
    if not records:
        raise CaptureError("no attention was captured, so there is nothing to show; run the model inside the capture")
    notes: list[str] = []
    chosen = list(enumerate(records))
    for name, wanted in (("sample", sample), ("run", run)):
        chosen = _chosen(chosen, name, wanted, notes)
    sides = _Sides(tokens)
    crossed = {r.path.split(".")[0] for _, r in chosen if r.kind == "cross"}
    layers = []
    for index, record in chosen:
        extra = {name: v for name, values in (trust or {}).items() if (v := values[index]) is not None}
        layers.append(_maps(record, *sides.of(record, crossed), extra))
    notes += sorted({note for _, r in chosen for note in r.notes})
    return PageData(title, sides.sequences, layers, notes, list(missed))


def to_html(
    records: Sequence[Record],
    tokens: Any,
    path: str | Path,
    *,
    max_bytes: int | None = None,
    language: str = "auto",
    **options,
) -> Path:
    """Write the explorer, whole or not at all. `options` as for `page_of`; the rest as for `html.build.write_page`."""
    return write_page(page_of(records, tokens, **options), path, max_bytes=max_bytes, language=language)


def even_spread(record: Record) -> np.ndarray:
    """(P, Q): the pooled mass of an even spread over the keys that each query may see; from the record, or its mask's outline."""
    if record.pooled_even is not None:
        return record.pooled_even.numpy()
    queries, keys = np.arange(record.queries)[:, None] + record.offset, np.arange(record.keys)[None]
    allowed = (keys <= queries) if record.causal else np.ones((record.queries, record.keys), bool)
    if record.seen_by is not None:
        allowed = allowed & (record.seen_by.numpy() > 0)
    share = allowed / np.maximum(allowed.sum(1, keepdims=True), 1)
    mass = np.add.reduceat(share, record.key_edges[:-1], axis=1)
    rows = np.diff(record.query_edges)[:, None]
    return np.add.reduceat(mass, record.query_edges[:-1], axis=0) / rows


def _chosen(
    records: list[tuple[int, Record]], name: str, wanted: int | None, notes: list[str]
) -> list[tuple[int, Record]]:
    known = sorted({getattr(r, name) for _, r in records})
    listed = ", ".join(str(k) for k in known)
    if wanted is not None and wanted not in known:
        raise CaptureError(f"{name} {wanted} was not captured; there are {listed}")
    shown = known[0] if wanted is None else wanted
    if len(known) > 1:
        notes.append(f"Shown: {name} {shown} of {listed}.")
    return [(i, r) for i, r in records if getattr(r, name) == shown]


class _Sides:
    """The sequences of a page; each side of a record finds or makes its own."""

    def __init__(self, tokens: Any):
        given = dict(tokens) if isinstance(tokens, Mapping) else ({} if tokens is None else {"text": tokens})
        self.given: dict[str, Tokens | None] = {name: Tokens.of(value) for name, value in given.items()}
        self.sequences: list[TokenSequence] = []
        self.index: dict[tuple[str, int], int] = {}

    def of(self, record: Record, crossed: set[str]) -> tuple[int, int]:
        """(queries, keys) as places in `sequences`."""
        if record.kind == "channel":
            return self._side("channels", record.queries, record, ()), self._side("channels", record.keys, record, ())
        two = bool(crossed) or "source" in self.given
        if record.kind == "cross":
            names = ("target", "source")
        else:
            names = (("target" if record.path.split(".")[0] in crossed else "source"),) * 2 if two else ("text", "text")
        # the source first, so that it is sequence 0
        keys = self._side(names[1], record.keys, record, record.segments)
        return self._side(names[0], record.queries, record, record.segments), keys

    def _side(self, name: str, size: int, record: Record, segments: Sequence[tuple[str, int, int]]) -> int:
        if (name, size) not in self.index:
            tokens = self.given.get(name, self.given.get("text") if name != "channels" else None)
            if tokens is not None and len(tokens) != size and name in self.given:
                lengths = ", ".join(f"{n} has {len(t)}" for n, t in self.given.items() if t is not None)
                raise CaptureError(
                    f"layer {record.layer} ({record.path}) has {record.queries} queries and {record.keys} keys; of the tokens, "
                    f"{lengths}; give one label per position"
                )
            labels = tokens.labels if tokens is not None and len(tokens) == size else [str(i) for i in range(size)]
            inside = [Segment(n, a, b) for n, a, b in segments if b <= size]
            self.index[name, size] = len(self.sequences)
            self.sequences.append(TokenSequence(name, labels, inside))
        return self.index[name, size]


def _maps(record: Record, queries: int, keys: int, extra: Mapping[str, Sequence[float | None]]) -> LayerMaps:
    rows = {}
    if record.rows is not None and record.row_weights is not None:
        rows = {int(q): record.row_weights[:, i].numpy() for i, q in enumerate(record.rows.tolist())}
    received = None
    if record.received is not None:
        seen = (
            record.seen_by
            if record.seen_by is not None
            else record.received.new_full((record.keys,), max(1, record.queries))
        )
        received = (record.received / seen.clamp(min=1)).numpy()
    allowed = None
    if record.weights is not None and record.causal:
        allowed = np.arange(record.keys)[None] <= np.arange(record.queries)[:, None] + record.offset
    even = even_spread(record) if record.pooled is not None else None
    facts = {
        "kernel": record.kernel, "source": record.source, "dtype": record.dtype,
        "where": "/".join(record.where.replace("\\", "/").split("/")[-3:]),  # a page is passed on: no home folder
        "mask": record.mask_digest or "none",
    }  # fmt: skip
    return LayerMaps(
        layer=record.layer, path=record.path, heads=record.head_names, kind=record.kind, queries=queries, keys=keys,
        weights=_array(record.weights), rows=rows, pooled=_array(record.pooled), peak=_array(record.pooled_max), even=even,
        query_edges=np.array(record.query_edges) if record.pooled is not None else None,
        key_edges=np.array(record.key_edges) if record.pooled is not None else None,
        received=received, series={name: x.numpy() for name, x in record.series.items()},
        scores={name: x.tolist() for name, x in record.scores.items() if name not in TRUST},
        trust={name: record.scores[name].tolist() for name in TRUST if name in record.scores} | dict(extra),
        segment_mass=_array(record.segment_map), allowed=allowed, facts=facts,
    )  # fmt: skip


def _array(x: Tensor | None) -> np.ndarray | None:
    return None if x is None else x.float().numpy()
