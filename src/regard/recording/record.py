"""What is kept of one attention layer of one sample: the format between capture, files, plots and the HTML explorer.

A Record is plain data: numbers, texts, and CPU tensors; nothing in it refers to the model. Everything in `meta()` is JSON-able;
everything in `arrays()` is a tensor with a fixed name, and `Record.build(meta, arrays)` is the inverse of the two.

Axes: H heads, T queries, S keys, P and Q bins of queries and keys, G segments. All floats are float32; sums and means are exact
(computed from every weight), except where a name says "rows": those come from the rows in `rows`.

Names in `scores` (each (H,)), the means over queries of the series of the same name unless stated:
  entropy            nats;  entropy_share: divided by ln(number of keys that the query may see), 0 to 1;  span: e ** entropy, keys
  max                largest weight of a row
  sink               weight on key 0 (queries 1 ...);  sink_column: largest share of all mass that one key gets
  self, previous, next   weight on the key at the query's own place, one before, one after
  distance           mean of |query place - key place|, keys;  local: weight within 8 keys on either side, the query's own included
  first, last        weight on the first and the last 4 keys that exist
  duplicate, induction   weight on earlier equal tokens; on the keys after earlier equal tokens (only with token ids)
  nucleus_rows       least number of keys that hold 90 % of a row, on the rows kept for it
  vertical           share of the mass on the 1 % heaviest keys;  slash_rows: on the 1 % heaviest distances back, same rows
  row_sum            1, less with a sink logit, anything for gates without a softmax
  hidden             mass on keys that the mask hides: must be 0
  output             share of the head in the squared norm of all heads' outputs (through the output projection where it is known)

Names in `series` (each (H, T)): entropy, entropy_share, max, sink, self, previous, next, distance, local, row_sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

FORMAT = 1  # of files; a higher number is refused


@dataclass(repr=False)
class Record:
    """One attention layer, one sample, possibly stitched from several calls (prefill and decode steps)."""

    layer: int  # 0, 1, ...: order of first use in the model
    path: str  # dotted module path, "" for the model itself
    kind: str  # "self", "cross", "channel"
    source: str  # "fused", "softmax", "native_mha", "exp", "other", "flex"
    kernel: str  # the operator, "aten::_scaled_dot_product_flash_attention_for_cpu"
    where: str  # "file:line"
    sample: int  # which sample of the batch
    run: int  # 0, 1, ...: which sequence, when the model was called several times
    steps: int  # calls that were stitched together
    heads: int  # H
    kv_heads: int
    queries: int  # T
    keys: int  # S
    offset: int  # key place at which query 0 stands
    dtype: str
    level: str  # "summary", "rows", "full"
    causal: bool  # no weight on keys after the query's own place
    head_names: list[int]  # the heads' numbers in the model (all, or those chosen)
    mask_digest: str = ""  # equal digests: equal masks
    notes: list[str] = field(
        default_factory=list
    )  # what a reader must know ("dropout was on", "after mixing of heads")
    segments: list[tuple[str, int, int]] = field(default_factory=list)  # (name, first key, end)
    scores: dict[str, Tensor] = field(default_factory=dict)  # name -> (H,)
    series: dict[str, Tensor] = field(default_factory=dict)  # name -> (H, T)
    received: Tensor | None = None  # (H, S), sum over queries of the weight each key gets
    seen_by: Tensor | None = None  # (S,), int64: how many queries may see the key
    pooled: Tensor | None = (
        None  # (H, P, Q): mean over the queries of a bin of the mass on the keys of a bin; rows sum to row_sum
    )
    pooled_max: Tensor | None = None  # (H, P, Q): the largest single weight
    pooled_even: Tensor | None = None  # (P, Q): `pooled` of an even spread over the keys that each query may see
    query_edges: list[int] = field(default_factory=list)  # P + 1 edges of the query bins
    key_edges: list[int] = field(default_factory=list)  # Q + 1
    profile: Tensor | None = (
        None  # (H, K): mean mass at distance [0], [1], [2,3], [4,7], ... on either side of the query
    )
    segment_map: Tensor | None = None  # (H, G, G): mean over the queries of a segment of the mass on a segment
    rows: Tensor | None = None  # (R,) int64: queries kept exactly
    row_weights: Tensor | None = None  # (H, R, S)
    top_values: Tensor | None = None  # (H, R, K), of the rows, largest first
    top_keys: Tensor | None = None  # (H, R, K) int64
    weights: Tensor | None = None  # (H, T, S), level "full"
    output_cosine: Tensor | None = None  # (H, H): mean cosine of what two heads add through the output projection

    _ARRAYS = (
        "received", "seen_by", "pooled", "pooled_max", "pooled_even", "profile", "segment_map", "rows", "row_weights", "top_values",
        "top_keys", "weights", "output_cosine",
    )  # fmt: skip

    def __repr__(self) -> str:
        place = f"layer {self.layer} {self.path}".strip()
        return f"<Record {place}: {self.kind}, {self.heads} heads, {self.queries} x {self.keys}, sample {self.sample}, {self.level}>"

    @property
    def name(self) -> str:
        """ "3 model.layers.3.self_attn" """
        return f"{self.layer} {self.path}".strip()

    def row(self, query: int) -> Tensor | None:
        """(H, S) the exact weights of one query, where they were kept; else None."""
        if self.weights is not None:
            return self.weights[:, query]
        if self.rows is not None and self.row_weights is not None:
            at = (self.rows == query).nonzero().flatten().tolist()
            return self.row_weights[:, at[0]] if at else None
        return None

    def meta(self) -> dict[str, Any]:
        """Everything but the tensors, JSON-able."""
        skip = {*self._ARRAYS, "scores", "series"}
        return {name: value for name, value in vars(self).items() if name not in skip}

    def arrays(self) -> dict[str, Tensor]:
        """Every tensor by name; those of `scores` and `series` as "scores.NAME" and "series.NAME"."""
        found = {name: getattr(self, name) for name in self._ARRAYS if getattr(self, name) is not None}
        found |= {f"scores.{name}": x for name, x in self.scores.items()}
        return found | {f"series.{name}": x for name, x in self.series.items()}

    @classmethod
    def build(cls, meta: dict[str, Any], arrays: dict[str, Tensor]) -> Record:
        """The inverse of `meta` and `arrays`."""
        known = {name: value for name, value in meta.items() if name in cls.__dataclass_fields__}
        known["segments"] = [(str(name), int(a), int(b)) for name, a, b in known.get("segments", [])]
        record = cls(**known)
        for name, tensor in arrays.items():
            group, _, rest = name.partition(".")
            if group in ("scores", "series"):
                getattr(record, group)[rest] = tensor
            elif group in cls._ARRAYS:
                setattr(record, group, tensor)
        return record

    @property
    def nbytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in self.arrays().values())
