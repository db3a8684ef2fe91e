"""What an argument may be: a stream of features or ids, a mask, lengths, places, a recurrent state, edges, levels of a map.

Axes: B items, L tokens (T, H, W where they lie in two or three directions; T queries in a mask), D channels, N layers, E edges,
V levels, 1, 2 and 4 themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks.call import Source
from regard.checks.layout import Layout

MOST = 512  # tokens that a companion has values for
LEVELS = ((4, 6), (2, 3), (1, 2), (1, 1), (1, 1), (1, 1))  # rows and columns of the maps of a pyramid
STREAMS = ("BLD", "LBD", "BD", "B1D", "LD", "BL", "BDHW", "BHWD", "BTHWD", "BTDHW", "BDTHW", "BTLD")
Value = Callable[[dict[str, Tensor], torch.dtype], object]


@dataclass(frozen=True)
class Form:
    """A kind of argument and its axes. `parts`: 0 for one tensor, else a tuple of so many alike."""

    kind: str
    axes: str = ""
    parts: int = 0

    @property
    def is_stream(self) -> bool:
        """May its tokens be a query or keys?"""
        return self.parts == 0 and (
            (self.kind == "float" and self.axes in STREAMS) or (self.kind == "ids" and self.axes[:1] in "BL1")
        )

    @property
    def has_tokens(self) -> bool:
        return self.is_stream and bool(set("LHW") & set(self.axes))

    @property
    def directions(self) -> str:
        """The token axes, in the order of a grid."""
        return "".join(a for a in "THWL" if a in self.axes)

    def source(self, size: dict[str, int], items: int, vocabulary: int | None) -> Source:
        """The stream that it stands for, of these sizes (axis letter -> size)."""
        grid = tuple(size[a] for a in self.directions) or ((1,) if "1" in self.axes else ())
        axes = self.axes.replace("1", "L")
        batch = items if "B" in axes else 1
        if self.kind == "ids":
            return Source(Layout(axes), batch, grid, 1, vocabulary=vocabulary)
        return Source(Layout(axes), batch, grid, size.get("D", 1))


def forms(kind: str, *axes: str, parts: int = 0) -> tuple[Form, ...]:
    return tuple(Form(kind, a, parts) for a in axes)


FLOATS = forms("float", "BLD", "BD", "LBD", "B1D", "BL", "BDHW", "BLLD", "B")
MAPS = forms("float", "BHWD", "BTHWD", "BTDHW", "BDTHW", "BTLD")
IDS = forms("ids", "BL", "B", "LB", "B1", "1B", "BHW")
STATES = (
    *forms("state", "NBD", parts=2), *forms("state", "BD", parts=2), *forms("state", "NBD"), *forms("state", "BD"), *forms("state", "NBD", parts=3), *forms("state", "BD", parts=3),
)  # fmt: skip
MASKS = (
    *forms("seen", "BL", "B1L", "B11L", "BTL", "B1TL", "TL", "LB"), *forms("added", "B11L", "BL", "BTL", "B1TL", "TL", "B1L"),
    *forms("ones", "BL", "BL1"), *forms("count", "BL"), Form("none"),
)  # fmt: skip
HIDERS = tuple(Form("hidden", f.axes) for f in MASKS if f.kind == "seen")
LENGTHS = (*forms("lengths", "B"), *forms("lengths", "B1"), *forms("listed", "B"))
PLACES = (*forms("places", "L", "BL", "1L", "B"), Form("zero"), Form("none"))
TABLES = (*forms("table", "LD", "1LD", "LD2", "L1D", "11LD"), *forms("turns", "LD"))
EDGES = forms("edges", "2E")
ENDS = (*forms("from", "E"), *forms("to", "E"))
OF_EDGES = (*forms("float", "ED", "E"), *forms("ids", "E"))
GRAPH = (*forms("float", "LD"), *forms("ids", "L", "E"))
POINTS = forms("points", "BLV2", "BL2", "BLV4")
SHAPES = (Form("levels", "V2"), Form("pairs", "V2"))
STARTS = forms("starts", "V")


def made(
    form: Form, size: dict[str, int], along: dict[str, str], items: int, query: str, vocabulary: int | None
) -> Value:
    """What fills an argument that is no stream: a function of the tokens of all streams and the working dtype.

    Args:
        form: its kind and axes.
        size: axis letter -> size.
        along: axis letter -> the stream that has one token for each entry.
        items: B where no stream has items.
        query: the stream whose items count.
        vocabulary: ids are below this number.
    """

    def value(tokens: dict[str, Tensor], dtype: torch.dtype) -> object:
        count = {a: tokens[s].shape[1] for a, s in along.items()}
        whole = {**size, **count, "B": tokens[query].shape[0] if items else 1, "1": 1, "2": 2, "4": 4}
        if form.parts:
            return tuple(_filled(form, whole, dtype, vocabulary, seed) for seed in range(form.parts))
        return _filled(form, whole, dtype, vocabulary, 0)

    value.__doc__ = f"made up ({form.kind}), ({', '.join(form.axes)}), equal for all items"
    return value


def _filled(form: Form, size: dict[str, int], dtype: torch.dtype, vocabulary: int | None, seed: int) -> object:
    if "E" in form.axes:
        size = {**size, "E": _ring(size["L"]).shape[1]}
    shape = tuple(size[a] for a in form.axes)
    generator = torch.Generator().manual_seed(5 + seed)
    plain: dict[str, Callable[[], object]] = {
        "none": lambda: None,
        "zero": lambda: 0,
        "seen": lambda: torch.ones(shape, dtype=torch.bool),
        "hidden": lambda: torch.zeros(shape, dtype=torch.bool),
        "count": lambda: torch.ones(shape, dtype=torch.long),
        "ones": lambda: torch.ones(shape, dtype=dtype),
        "added": lambda: torch.zeros(shape, dtype=dtype),
        "lengths": lambda: torch.full(shape, size["S"]),
        "listed": lambda: [size["S"]] * size["B"],
        "ids": lambda: torch.full(shape, min(1, (vocabulary or 2) - 1)),
        "places": lambda: (torch.arange(shape[-1]) if form.axes != "B" else torch.zeros(1, dtype=torch.long)).expand(shape).clone(),
        "edges": lambda: _ring(size["L"]),
        "from": lambda: _ring(size["L"])[0],
        "to": lambda: _ring(size["L"])[1],
        "levels": lambda: torch.tensor(LEVELS[: size["V"]]),
        "pairs": lambda: list(LEVELS[: size["V"]]),
        "starts": lambda: torch.tensor([0, *(h * w for h, w in LEVELS[: size["V"]])])[:-1].cumsum(0),
        "points": lambda: _alike(form.axes, size, generator, dtype, torch.rand),
        "turns": lambda: torch.polar(torch.ones(shape, dtype=torch.float64), _angles(shape)).to(torch.complex128 if dtype == torch.float64 else torch.complex64),
        "table": lambda: _table(form.axes, shape, dtype),
    }  # fmt: skip
    if form.kind in plain:
        return plain[form.kind]()
    return _alike(form.axes, size, generator, dtype, torch.randn)


def _alike(
    axes: str, size: dict[str, int], generator: torch.Generator, dtype: torch.dtype, draw: Callable[..., Tensor]
) -> Tensor:
    """Numbers that are equal for all items; of more tokens the first ones stay as they are."""
    own = tuple(MOST if a == "L" and axes.count("L") == 1 else 1 if a == "B" else size[a] for a in axes)
    x = draw(own, generator=generator, dtype=torch.float64)
    for i, a in enumerate(axes):
        x = x.narrow(i, 0, size[a]) if a == "L" else x
    return x.expand(tuple(size[a] for a in axes)).contiguous().to(dtype)


def _angles(shape: tuple[int, ...]) -> Tensor:
    """(T, D): angles of rotary positions."""
    rate = 10_000.0 ** (-torch.arange(shape[-1], dtype=torch.float64) / shape[-1])
    return torch.arange(shape[-2], dtype=torch.float64)[:, None] * rate


def _table(axes: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Cosines and sines of places: on an axis of two where there is one, else one after the other along the channels."""
    if axes == "LD2":
        angle = _angles(shape[:2])
        return torch.stack([angle.cos(), angle.sin()], -1).to(dtype)
    places, width = math.prod(shape[:-1]), shape[-1]
    angle = _angles((places, (width + 1) // 2))
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :width].reshape(shape).to(dtype)


def _ring(nodes: int) -> Tensor:
    """(2, E): every node linked with the next one and the one three further, both ways, and with itself."""
    at = torch.arange(nodes)
    far = [(at, (at + step) % nodes) for step in (1, 3)]
    pairs = [*far, *((b, a) for a, b in far), (at, at)]
    return torch.unique(torch.stack([torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])]), dim=1)
