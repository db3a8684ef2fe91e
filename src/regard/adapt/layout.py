"""How the weights of an attention lie in memory, and how to take them apart into ours and put them back.

Axes: E channels in, H query heads, G key heads, R = H / G query heads of a group, D and Dv channels of a head.
Ours: four matrices (out, in), as `torch.nn.Linear` keeps them; channel h * D + d belongs to head h.

A wrong layout seldom raises: the shapes fit, and the numbers are wrong. So what is read here is verified by whoever
converts (`regard.convert`), and a layout is a value that can be varied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import ConversionError

Packing = Literal["concatenated", "per_head", "interleaved", "channel_major"]
PACKINGS = ("concatenated", "per_head", "interleaved", "channel_major")


class Linear(NamedTuple):
    """One projection: weight (out, in), bias (out,) or None."""

    weight: Tensor
    bias: Tensor | None

    def map(self, change: Callable[[Tensor], Tensor]) -> Linear:
        """The same change to both."""
        return Linear(change(self.weight), None if self.bias is None else change(self.bias))


class Projections(NamedTuple):
    """The four projections in our form; `out` is None where the module ends with its joined heads."""

    query: Linear  # (H * D, E)
    key: Linear  # (G * D, key width)
    value: Linear  # (G * Dv, value width)
    out: Linear | None  # (E, H * Dv)


@dataclass(frozen=True)
class Layout:
    """How the arrays of one attention lie.

    Attributes:
        num_heads: H.
        num_kv_heads: G; None: H.
        head_dim: D, needed only where the widths leave it open; None: read from them.
        packing: Rows of a packed matrix. "concatenated": all queries, all keys, all values (torch, GPT-2, timm);
            "per_head": for each key head its queries, its key and its value (GPT-NeoX, BLOOM); "interleaved": head,
            channel, then query-key-value; "channel_major": channel, query-key-value, then head.
        order: Which of q, k and v comes first. For separate matrices: whose place each takes.
        transposed: Matrices are (in, out) (GPT-2's Conv1D, Keras, Flax, ONNX MatMul).
        head_order: "blocks": channel h * D + d is head h; "strided": channel d * H + h is.
        group_order: "grouped": query head i reads key head i // R (torch, JAX, Keras, ONNX); "tiled": i % G (x-transformers).
    """

    num_heads: int
    num_kv_heads: int | None = None
    head_dim: int | None = None
    packing: Packing = "concatenated"
    order: str = "qkv"
    transposed: bool = False
    head_order: Literal["blocks", "strided"] = "blocks"
    group_order: Literal["grouped", "tiled"] = "grouped"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("packing", PACKINGS),
            ("head_order", ("blocks", "strided")),
            ("group_order", ("grouped", "tiled")),
        ):
            if getattr(self, name) not in allowed:
                raise ConversionError(f"{name} is one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if sorted(self.order) != ["k", "q", "v"]:
            raise ConversionError(f"order is the letters q, k and v in some order, got {self.order!r}")
        if self.num_heads < 1 or self.kv_heads < 1 or self.num_heads % self.kv_heads:
            raise ConversionError(
                f"{self.num_heads} query heads cannot share {self.kv_heads} key heads; num_kv_heads must divide num_heads"
            )

    @property
    def kv_heads(self) -> int:
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    def count(self, letter: str) -> int:
        """How many heads of queries (q), keys (k) or values (v) there are."""
        return self.num_heads if letter == "q" else self.kv_heads


def unpack(arrays: Mapping[str, Tensor], layout: Layout) -> Projections:
    """Ours from theirs.

    Args:
        arrays: "qkv", or "q" and "kv", or "q", "k" and "v"; "out" where there is one; biases as "q.bias" and so on.

    Raises:
        ConversionError: Widths that are no whole number of heads, or that contradict each other.
    """
    turned = {name: a.T if layout.transposed and a.ndim == 2 else a for name, a in arrays.items()}
    parts: dict[str, Linear] = {}
    for letters in ("qkv", "kv", "q", "k", "v"):
        if letters in turned:
            weights = _split(turned[letters], letters, layout)
            bias = turned.get(f"{letters}.bias")
            biases = dict.fromkeys(letters) if bias is None else _split(bias, letters, layout)
            for letter in letters:
                parts[letter] = Linear(weights[letter], biases[letter])
    if len(next(iter(arrays))) == 1 and layout.order != "qkv":  # separate matrices whose names are mixed up
        parts = {letter: parts[place] for letter, place in zip(layout.order, "qkv", strict=True)}
    widths = {letter: _head_width(parts[letter].weight, layout.count(letter), letter) for letter in "qkv"}
    if widths["q"] != widths["k"]:
        raise ConversionError(
            f"queries have {layout.num_heads} heads of width {widths['q']} and keys {layout.kv_heads} of width "
            f"{widths['k']}; the widths must agree: is num_heads or num_kv_heads another?"
        )
    q, k, v = (parts[x].map(lambda rows, x=x: _rows_to_ours(rows, x, widths[x], layout)) for x in "qkv")
    return Projections(q, k, v, _out_to_ours(turned, widths["v"], layout))


def pack(ours: Projections, layout: Layout, names: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Theirs from ours: the arrays that `names` has, in its shapes; a bias that ours lacks is 0 there.

    Raises:
        ConversionError: A bias of ours that is not 0 has no place there, or a shape differs.
    """
    parts = {"q": ours.query, "k": ours.key, "v": ours.value}
    rows = {x: part.map(lambda a, x=x: _rows_to_theirs(a, x, layout)) for x, part in parts.items()}
    made: dict[str, Tensor] = {}
    for letters in ("qkv", "kv", "q", "k", "v"):
        if letters not in names:
            continue
        made[letters] = _join({x: rows[x].weight for x in letters}, letters, layout)
        biases = {x: _or_zeros(rows[x].bias, rows[x].weight) for x in letters}
        made[f"{letters}.bias"] = _join(biases, letters, layout)
    if ours.out is not None:
        made["out"] = _out_to_theirs(ours.out.weight, layout)
        made["out.bias"] = _or_zeros(ours.out.bias, ours.out.weight)
    for name, array in made.items():
        if name not in names and bool((array != 0).any()):
            raise ConversionError(f"the layer has {name!r} and the target has no place for it; make the target with it")
    kept = {name: made[name].T if layout.transposed and made[name].ndim == 2 else made[name] for name in names}
    for name, array in kept.items():
        if array.shape != names[name].shape:
            raise ConversionError(f"{name!r} is {tuple(array.shape)} here and {tuple(names[name].shape)} in the target")
    return kept


def _or_zeros(bias: Tensor | None, weight: Tensor) -> Tensor:
    return weight.new_zeros(weight.shape[0]) if bias is None else bias


def _head_width(weight: Tensor, heads: int, letter: str) -> int:
    if weight.shape[0] % heads:
        word = {"q": "query", "k": "key", "v": "value"}[letter]
        raise ConversionError(
            f"the {word} projection makes {weight.shape[0]} channels, which do not divide into {heads} heads"
        )
    return weight.shape[0] // heads


def _split(packed: Tensor, letters: str, layout: Layout) -> dict[str, Tensor]:
    """The rows of each letter, still in their order of heads."""
    order = [letter for letter in layout.order if letter in letters]
    if len(order) == 1:
        return {letters: packed}
    heads = [layout.count(letter) for letter in order]
    if packed.shape[0] % sum(heads):
        raise ConversionError(
            f"{packed.shape[0]} packed rows do not divide into {' + '.join(map(str, heads))} heads of "
            f"{', '.join(order)}"
        )
    width = packed.shape[0] // sum(heads)
    if layout.packing == "concatenated":
        return dict(zip(order, packed.split([n * width for n in heads])))
    if layout.packing == "per_head":
        groups = layout.kv_heads
        rows = packed.unflatten(0, (groups, sum(heads) // groups, width))
        pieces = rows.split([n // groups for n in heads], dim=1)
        return {letter: piece.flatten(0, 2) for letter, piece in zip(order, pieces)}
    _same_heads(layout)
    if layout.packing == "interleaved":
        rows = packed.unflatten(0, (layout.num_heads, width, len(order))).movedim(2, 0)
    else:
        rows = packed.unflatten(0, (width, len(order), layout.num_heads)).movedim(1, 0).transpose(1, 2)
    return {letter: piece.flatten(0, 1) for letter, piece in zip(order, rows)}


def _join(rows: Mapping[str, Tensor], letters: str, layout: Layout) -> Tensor:
    """The inverse of `_split`."""
    order = [letter for letter in layout.order if letter in letters]
    if len(order) == 1:
        return rows[letters]
    pieces = [rows[letter] for letter in order]
    if layout.packing == "concatenated":
        return torch.cat(pieces)
    groups = layout.kv_heads
    width = pieces[0].shape[0] // layout.count(order[0])
    if layout.packing == "per_head":
        return torch.cat([piece.unflatten(0, (groups, -1, width)) for piece in pieces], dim=1).flatten(0, 2)
    _same_heads(layout)
    stacked = torch.stack([piece.unflatten(0, (layout.num_heads, width)) for piece in pieces])  # (3, H, D, ...)
    if layout.packing == "interleaved":
        return stacked.movedim(0, 2).flatten(0, 2)
    return stacked.transpose(1, 2).movedim(0, 1).flatten(0, 2)


def _same_heads(layout: Layout) -> None:
    if layout.kv_heads != layout.num_heads:
        raise ConversionError(
            f"packing={layout.packing!r} has as many key heads as query heads; got {layout.kv_heads} and {layout.num_heads}"
        )


def _rows_to_ours(rows: Tensor, letter: str, width: int, layout: Layout) -> Tensor:
    heads = layout.count(letter)
    if layout.head_order == "strided":
        rows = rows.unflatten(0, (width, heads)).transpose(0, 1).flatten(0, 1)
    if letter == "q" and layout.group_order == "tiled":
        rows = rows.unflatten(0, (heads // layout.kv_heads, layout.kv_heads, width)).transpose(0, 1).flatten(0, 2)
    return rows


def _rows_to_theirs(rows: Tensor, letter: str, layout: Layout) -> Tensor:
    heads = layout.count(letter)
    width = rows.shape[0] // heads
    if letter == "q" and layout.group_order == "tiled":
        rows = rows.unflatten(0, (layout.kv_heads, heads // layout.kv_heads, width)).transpose(0, 1).flatten(0, 2)
    if layout.head_order == "strided":
        rows = rows.unflatten(0, (heads, width)).transpose(0, 1).flatten(0, 1)
    return rows


def _out_to_ours(turned: Mapping[str, Tensor], width: int, layout: Layout) -> Linear | None:
    if "out" not in turned:
        return None
    weight = turned["out"]
    if weight.shape[1] != layout.num_heads * width:
        raise ConversionError(
            f"the last projection reads {weight.shape[1]} channels, and {layout.num_heads} heads of width {width} make "
            f"{layout.num_heads * width}"
        )
    return Linear(_rows_to_ours(weight.T, "q", width, layout).T, turned.get("out.bias"))


def _out_to_theirs(weight: Tensor, layout: Layout) -> Tensor:
    return _rows_to_theirs(weight.T, "q", layout).T
