"""How much of a capture fits into a page of a given size: a ladder from exact numbers to coarse ones, and what each step costs.

Axes: H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regard.html.blocks import EXACT, HALF, Format, encode
from regard.html.page_data import LayerMaps, PageData

POOLED_BINS = 128  # a side, when full weights do not fit
SERIES_POINTS = 512


@dataclass(frozen=True)
class Quality:
    """One step of the ladder: the format of full weights, of pooled maps and received weights, and of the rest."""

    weights: Format | None  # None: full weights are pooled
    maps: Format
    rest: Format


LADDER = (
    Quality(EXACT, EXACT, EXACT),
    Quality(HALF, HALF, HALF),
    *(Quality(Format("sqrt", levels), HALF, HALF) for levels in (254, 127)),
    *(Quality(Format("sqrt", levels), Format("sqrt", 254), HALF) for levels in (127, 95, 63, 47, 31, 23, 15, 11, 7)),
    Quality(None, Format("sqrt", 254), HALF),
    Quality(None, Format("sqrt", 63), HALF),
    Quality(None, Format("sqrt", 15), HALF),
)


def first_that_may_fit(data: PageData, budget: int) -> int:
    """The finest step of the ladder whose size, estimated from a few heads, is within `budget` bytes."""
    for step, quality in enumerate(LADDER[:-1]):
        if 1.01 * sum(_estimate(entry, quality, place) for place, entry in enumerate(data.layers)) <= budget:
            return step
    return len(LADDER) - 1


def _estimate(entry: LayerMaps, quality: Quality, place: int) -> int:
    """Bytes of a layer, from two of its heads; another two in each layer."""
    heads = len(entry.heads)
    chosen = sorted({(2 * place) % heads, (2 * place + heads // 2) % heads})
    total = 0.0
    if entry.weights is not None and quality.weights is not None:
        total += sum(
            len(encode(_sample(entry.weights[h]), quality.weights)[1]) * _thinning(entry.weights[h]) for h in chosen
        )
    for maps in (entry.pooled, entry.peak, entry.received):
        if maps is not None:
            total += sum(len(encode(maps[h], quality.maps)[1]) for h in chosen)
    for row in entry.rows.values():
        total += sum(len(encode(row[h], quality.rest)[1]) for h in chosen)
    return round(total * heads / len(chosen))


def _thinning(head: np.ndarray) -> int:
    return max(1, head.size // 250_000)


def _sample(head: np.ndarray) -> np.ndarray:
    return head[:: _thinning(head)]


def pooled_instead(entry: LayerMaps) -> LayerMaps:
    """The same layer with its full weights joined to mean and peak maps of at most 128 bins a side."""
    if entry.weights is None:
        return entry
    _, queries, keys = entry.weights.shape
    rows, columns = edges(queries, POOLED_BINS), edges(keys, POOLED_BINS)
    mass = np.stack([_pool(_pool(h, rows, 0) / np.diff(rows)[:, None], columns, 1) for h in entry.weights])
    peak = np.stack([_peak(_peak(h, rows, 0), columns, 1) for h in entry.weights])
    received = entry.received if entry.received is not None else received_of(entry)
    made = replace(
        entry,
        weights=None,
        pooled=mass,
        peak=peak,
        query_edges=rows,
        key_edges=columns,
        received=received,
        allowed=None,
    )
    if entry.allowed is not None:
        made.even = even_spread(entry.allowed, rows, columns)
    return made


def even_spread(allowed: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(A, B) pooled mass of an even spread over the allowed keys of each query."""
    attend = allowed.astype(np.float32)
    share = attend / np.maximum(attend.sum(1, keepdims=True), 1)
    return _pool(_pool(share, rows, 0) / np.diff(rows)[:, None], columns, 1)


def received_of(entry: LayerMaps) -> np.ndarray:
    """(H, S) mean weight that each key receives from the queries that may attend to it."""
    assert entry.weights is not None
    count = entry.weights.shape[1] if entry.allowed is None else np.maximum(entry.allowed.sum(0), 1)
    return np.stack([h.sum(0, dtype=np.float32) / count for h in entry.weights])


def short_series(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((H, P) means of bins, (P + 1,) their limits), at most 512 points; NaN is left out of a mean."""
    limits = edges(values.shape[1], SERIES_POINTS)
    known = np.isfinite(values)
    total = np.add.reduceat(np.where(known, values, 0).astype(np.float64), limits[:-1], axis=1)
    count = np.add.reduceat(known.astype(np.int64), limits[:-1], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / count, limits


def edges(count: int, bins: int) -> np.ndarray:
    """(n + 1,) limits of at most `bins` bins of equal width over `count` positions; the last may be shorter."""
    width = -(-count // max(1, min(count, bins)))
    return np.append(np.arange(0, count, width), count)


def _pool(values: np.ndarray, limits: np.ndarray, axis: int) -> np.ndarray:
    return np.add.reduceat(values, limits[:-1], axis=axis, dtype=np.float32)


def _peak(values: np.ndarray, limits: np.ndarray, axis: int) -> np.ndarray:
    return np.maximum.reduceat(values, limits[:-1], axis=axis)
