"""One mask argument: the shape, dtype and polarity it takes, and how a keep pattern (B, S) is encoded for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

HIDE = -1e9  # what an additive mask adds at hidden keys

SHAPES = ("BS", "B11S", "B1S", "BTS", "B1TS", "TS", "S", "BS1", "HTS", "BHTS", "SB", "PTS", "SS", "QS")
ALIKE = ("TS", "S", "SS")  # one pattern for all items
DTYPES = ("bool", "int", "float", "additive")
DECLARED_DTYPES = {
    "bool": "bool", "additive": "additive",
    **dict.fromkeys(("long", "int", "uint8", "int8", "int16", "int32", "int64"), "int"),
    **dict.fromkeys(("float", "float16", "bfloat16", "float32", "float64"), "float"),
}  # fmt: skip


@dataclass(frozen=True)
class MaskUse:
    """How `parameter` is filled.

    shape: letters for axes: B items, S keys, T queries, 1 singleton, H heads; "HTS" is (B * H, T, S) batch-major;
    "PTS" is (B, T, S) with the mask on rows and columns; "SS" is (S, S), for the
    self-attention of the stream that holds the keys; "SB" is sequence first; "lengths" is (B,) counts, or with the dtype
    "fraction" parts of the longest item, 0 to 1.
    polarity: "keep" (True or 1 = attend) or "drop".
    """

    parameter: str
    source: str  # the stream whose tokens it hides
    shape: str = "BS"
    dtype: str = "bool"
    polarity: str = "keep"
    heads: int = 1
    works: bool = False  # hides what it should, and only that
    said: str = ""  # the words that fix the polarity
    neutral: bool = True  # hiding nothing equals giving no mask
    changes: bool = True  # hiding a key changed anything at all
    added: bool = False  # hiding no key by 0 and 1 changed anything, and large negative numbers did
    lead: int = 0  # keys before those of the tokens, never hidden: a class token
    partners: tuple[MaskUse, ...] = ()  # arguments that hide the same tokens elsewhere, and are given the same pattern

    def encode(self, keep: Tensor, queries: int, dtype: torch.dtype) -> Tensor:
        """keep: (B, S) bool, True = attend."""
        if self.lead:
            keep = torch.cat([torch.ones(keep.shape[0], self.lead, dtype=torch.bool), keep], 1)
            queries += self.lead
        if self.shape == "lengths":
            return keep.sum(-1) if self.dtype != "fraction" else _fractions(keep, dtype)
        shaped = _shape(keep, self.shape, queries, self.heads)
        if self.dtype == "additive":
            return torch.zeros(shaped.shape, dtype=dtype).masked_fill(~shaped, HIDE)
        value = shaped if self.polarity == "keep" else ~shaped
        return value.clone() if self.dtype == "bool" else value.to(torch.long if self.dtype == "int" else dtype)

    def arguments(self, keep: Tensor, queries: int, dtype: torch.dtype) -> dict[str, Tensor]:
        """This argument and its partners, encoded."""
        return {u.parameter: u.encode(keep, queries, dtype) for u in (self, *self.partners)}

    def describe(self) -> dict[str, str]:
        names = {"B": "batch", "S": "keys", "T": "queries", "1": "1", "H": "heads"}
        shape = self.shape if self.shape == "lengths" else ", ".join(names.get(a, a) for a in self.shape)
        meaning = (
            "additive, 0 = attend"
            if self.dtype == "additive"
            else "1 = as long as the longest item"
            if self.dtype == "fraction"
            else ("True/1 = attend" if self.polarity == "keep" else "True/1 = ignore")
        )
        return {
            "argument": self.parameter,
            "hides": self.source,
            "shape": f"({shape})",
            "dtype": self.dtype,
            "meaning": meaning,
            "evidence": self.said or "behaviour",
        }


def _fractions(keep: Tensor, dtype: torch.dtype) -> Tensor:
    """(B,): kept keys per key there is, 1 where all are kept; in 16 bits they would count wrongly."""
    return keep.sum(-1).to(torch.promote_types(dtype, torch.float32)) / keep.shape[1]


def _shape(keep: Tensor, shape: str, queries: int, heads: int) -> Tensor:
    batch, keys = keep.shape
    if shape == "BS":
        return keep
    if shape == "SB":
        return keep.T.contiguous()
    if shape == "BS1":
        return keep[:, :, None]
    if shape == "B1S":
        return keep[:, None]
    if shape == "B11S":
        return keep[:, None, None]
    if shape == "BTS":
        return keep[:, None].expand(batch, queries, keys).contiguous()
    if shape == "B1TS":
        return keep[:, None, None].expand(batch, 1, queries, keys).contiguous()
    if shape == "BHTS":
        return keep[:, None, None].expand(batch, heads, queries, keys).contiguous()
    if shape == "HTS":
        return keep[:, None, None].expand(batch, heads, queries, keys).reshape(batch * heads, queries, keys)
    if shape == "PTS":
        return keep[:, None] & keep[:, :, None]
    if shape == "SS":
        return keep[:1].expand(keys, keys).contiguous()
    if shape == "TS":
        return keep[:1].expand(queries, keys).contiguous()
    return keep[0]


def encodings(parameter: str, source: str, heads: int) -> Iterator[MaskUse]:
    """Every encoding to try, the usual ones first."""
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        for polarity in ("keep", "drop") if dtype != "additive" else ("keep",):
            if shape == "QS":
                continue
            yield MaskUse(parameter, source, shape, dtype, polarity, heads)


def lengths(parameter: str, source: str) -> list[MaskUse]:
    """How many tokens an item has, and then what part of the longest one that is, as loaders of speech give it."""
    return [MaskUse(parameter, source, "lengths", dtype) for dtype in ("int", "fraction")]
