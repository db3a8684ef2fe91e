"""What the page is made from: plain texts and arrays, whoever captured them.

Axes: L entries (one per captured attention layer), H heads, T queries, S keys, A x B pooled bins, G x K segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.core.errors import CaptureError

KINDS = ("self", "cross", "channel")


@dataclass
class Segment:
    """A named part of a sequence: positions start <= p < stop."""

    name: str
    start: int
    stop: int


@dataclass
class TokenSequence:
    """The tokens of one side: readable labels, one per position. Any text is safe here: the page never reads it as markup."""

    name: str  # "text", "source", "target" ...
    labels: Sequence[str]
    segments: Sequence[Segment] = ()


@dataclass
class LayerMaps:
    """One attention layer of one sample. Every array is optional; the page offers what is there.

    weights: (H, T, S), after softmax. Zooms to the single cell.
    rows: chosen query position -> (H, S), exact rows where `weights` is None.
    pooled: (H, A, B), mean over the queries of a bin of the mass in a key bin (a row sums to 1); `peak`: (H, A, B), the
        largest single weight in the bin; `even`: (A, B), the pooled mass of an even spread over the allowed keys (None: over all).
        `query_edges` (A + 1,) and `key_edges` (B + 1,) are the limits of the bins, from 0 to T and S.
    received: (H, S), mean weight that each key receives. Found from `weights` where None.
    series: name -> (H, T), one number per query, as "entropy". At most 512 points are kept (means of bins).
    scores, trust: name -> H numbers (None or NaN: unknown). `trust` is printed beside the map.
    segment_mass: (H, G, K), mean mass that a query of segment g gives to segment k, in the order of the sequences' segments.
    allowed: (T, S) bool, True = may be attended to. None: every key.
    facts: what ran, as {"kernel": ..., "dtype": ...}.
    """

    layer: int
    path: str
    heads: Sequence[int]
    kind: str = "self"
    queries: int = 0  # place of the query tokens in PageData.sequences
    keys: int = 0
    weights: np.ndarray | None = None
    rows: dict[int, np.ndarray] = field(default_factory=dict)
    pooled: np.ndarray | None = None
    peak: np.ndarray | None = None
    even: np.ndarray | None = None
    query_edges: np.ndarray | None = None
    key_edges: np.ndarray | None = None
    received: np.ndarray | None = None
    series: dict[str, np.ndarray] = field(default_factory=dict)
    scores: dict[str, Sequence[float | None]] = field(default_factory=dict)
    trust: dict[str, Sequence[float | None]] = field(default_factory=dict)
    segment_mass: np.ndarray | None = None
    allowed: np.ndarray | None = None
    facts: dict[str, str] = field(default_factory=dict)


@dataclass
class PageData:
    """Everything on one page."""

    title: str
    sequences: Sequence[TokenSequence]
    layers: Sequence[LayerMaps]
    notes: Sequence[str] = ()  # shown at the foot: what was done and with what
    missed: Sequence[str] = ()  # what was seen and not captured, and why


def check_page(data: PageData) -> None:
    """Refuse what cannot be shown.

    Raises:
        CaptureError: No layer, a side that is not among the sequences, or an array whose sizes are not those of its tokens and
            heads; the text names the layer, the array and both sizes.
    """
    if not data.layers:
        raise CaptureError("there is no attention to show: the capture has no record; see what was missed, and why")
    for entry in data.layers:
        name = f"layer {entry.layer} ({entry.path})"
        for side in (entry.queries, entry.keys):
            if not 0 <= side < len(data.sequences):
                raise CaptureError(f"{name} names sequence {side}; there are {len(data.sequences)}")
        if entry.kind not in KINDS:
            raise CaptureError(f"{name} is of kind {entry.kind!r}; the kinds are {', '.join(KINDS)}")
        if entry.weights is None and entry.pooled is None:
            raise CaptureError(
                f"{name} has neither weights nor pooled maps; capture it at a level that keeps one of them"
            )
        _check_arrays(entry, name, len(data.sequences[entry.queries].labels), len(data.sequences[entry.keys].labels))


def _check_arrays(entry: LayerMaps, name: str, queries: int, keys: int) -> None:
    heads = len(entry.heads)
    _fits(name, "weights", entry.weights, (heads, queries, keys))
    _fits(name, "received", entry.received, (heads, keys))
    _fits(name, "allowed", entry.allowed, (queries, keys))
    for at, row in entry.rows.items():
        if not 0 <= at < queries:
            raise CaptureError(f"{name} has a row for query {at}; the queries are 0 to {queries - 1}")
        _fits(name, f"row {at}", row, (heads, keys))
    for key, values in entry.series.items():
        _fits(name, f"series {key!r}", values, (heads, queries))
    for key, values in {**entry.scores, **entry.trust}.items():
        if len(values) != heads:
            raise CaptureError(f"{name} has {len(values)} values of {key!r} for {heads} heads")
    if entry.pooled is not None:
        if entry.query_edges is None or entry.key_edges is None:
            raise CaptureError(f"{name} has pooled maps and not the limits of their bins (query_edges and key_edges)")
        bins = (len(entry.query_edges) - 1, len(entry.key_edges) - 1)
        _fits(name, "pooled", entry.pooled, (heads, *bins))
        _fits(name, "peak", entry.peak, (heads, *bins))
        _fits(name, "even", entry.even, bins)
        if (entry.query_edges[0], entry.query_edges[-1], entry.key_edges[0], entry.key_edges[-1]) != (
            0,
            queries,
            0,
            keys,
        ):
            raise CaptureError(f"{name} has bins that do not run from 0 to {queries} queries and 0 to {keys} keys")


def _fits(layer: str, name: str, values: np.ndarray | None, shape: tuple[int, ...]) -> None:
    if values is not None and tuple(values.shape) != shape:
        raise CaptureError(
            f"{layer}: {name} has shape {tuple(values.shape)}; its heads and tokens make {shape}; "
            "give one label per position of this sample"
        )
