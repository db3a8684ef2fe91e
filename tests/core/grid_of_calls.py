"""Attention calls drawn from a grid of features, with a count of what was drawn: per feature, and per pair of features."""

import itertools
import random
from collections import Counter
from dataclasses import dataclass

import torch

from regard.mask import (
    blocks,
    causal,
    dense,
    dilated,
    documents,
    global_tokens,
    padding,
    prefix,
    sliding_window,
)

FEATURES = {
    "mask": (
        *("none", "causal", "window", "dilated", "global", "prefix", "documents", "padding", "blocks", "dense"),
        *("not", "or", "and", "bound"),
    ),
    "bias": ("none", "fixed", "learned"),
    "softcap": ("no", "yes"),
    "sink": ("no", "yes"),
    "groups": ("1", "2", "all"),
    "lengths": ("T=S", "T<S", "T>S", "T=1"),
    "dtype": ("float64", "float32", "bfloat16", "float16"),
    "offset": ("none", "int", "sample"),
    "dead": ("free", "yes"),  # "yes": at least one row sees nothing; "free": as it comes out
}
POSITIONED = ("causal", "window", "dilated", "global", "documents", "blocks", "not", "or", "and")
IMPOSSIBLE = {  # pairs that cannot be, and why
    frozenset({("mask", "none"), ("dead", "yes")}),  # without a mask every row sees every key
    *(
        frozenset({("mask", m), ("offset", o)}) for m in ("none", "bound") for o in ("int", "sample")
    ),  # nothing to shift
    *(frozenset({("mask", m), ("offset", o)}) for m in ("prefix", "padding", "dense") for o in ("int", "sample")),
}


@dataclass
class Example:
    """One call: its features, its tensors (with gradients), the other arguments."""

    features: dict[str, str]
    tensors: dict[str, torch.Tensor]
    arguments: dict[str, object]


def choose(source: random.Random) -> dict[str, str]:
    """Features of one possible call."""
    while True:
        features = {name: source.choice(levels) for name, levels in FEATURES.items()}
        unplaced = features["offset"] == "none" and features["lengths"] != "T=S" and features["mask"] in POSITIONED
        if not unplaced and not any(pair <= set(features.items()) for pair in IMPOSSIBLE):
            return features


def make(number: int) -> Example:
    """The call with this number."""
    source = random.Random(number)
    features = choose(source)
    generator = torch.Generator().manual_seed(number)
    B, kv_heads = source.choice((1, 2, 3)), source.choice((1, 2))
    group = {"1": 1, "2": 2, "all": 3}[features["groups"]]
    kv_heads = 1 if group == 3 else kv_heads
    H, D, Dv = kv_heads * group, source.choice((1, 3, 4, 8)), source.choice((2, 4, 5))
    T, S = lengths(features["lengths"], source)
    dtype = getattr(torch, features["dtype"])

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    tensors = {"query": normal(B, H, T, D), "key": normal(B, kv_heads, S, D), "value": normal(B, kv_heads, S, Dv)}
    if features["bias"] != "none":
        bias = normal(source.choice((1, B)), source.choice((1, H)), source.choice((1, T)), S)
        tensors["bias"] = bias if features["bias"] == "learned" else bias.detach()
    if features["sink"] == "yes":
        tensors["sink"] = normal(H)
    arguments: dict[str, object] = {"mask": mask(features, B, H, T, S, source, generator)}
    if features["softcap"] == "yes":
        arguments["softcap"] = source.choice((0.5, 3.0))
    if source.random() < 0.3:
        arguments["scale"] = source.choice((0.1, 1.0))
    return Example(features, tensors, arguments)


def lengths(kind: str, source: random.Random) -> tuple[int, int]:
    short = source.randint(2, 4)
    long = short + source.randint(1, 4)
    same = source.randint(2, 7)
    return {"T=S": (same, same), "T<S": (short, long), "T>S": (long, short), "T=1": (1, source.randint(2, 7))}[kind]


def mask(features, B, H, T, S, source, generator):
    kind, dead = features["mask"], features["dead"] == "yes"
    if kind == "none":
        return None
    offset = {"none": None, "int": source.randint(0, max(1, S - T)), "sample": None}[features["offset"]]
    if features["offset"] == "sample":
        offset = torch.randint(0, max(1, S - T) + 1, (B,), generator=generator)
    if dead and features["offset"] == "int" and kind in ("causal", "window", "and"):
        offset = -source.randint(1, T)

    def chance(*shape):
        return torch.rand(shape, generator=generator) > 0.4

    keep = chance(B, S)
    keep[:, 0] = True
    attend = chance(source.choice((1, B)), source.choice((1, H)), T, S)
    attend[..., 0] = True
    ids = torch.arange(S).div(2, rounding_mode="floor").repeat(B, 1)
    layout = chance(-(-S // 2), -(-S // 2))
    made = {
        "causal": lambda: causal(offset=offset),
        "window": lambda: sliding_window(source.choice((None, 0, 1)), source.choice((0, 1)), offset=offset),
        "dilated": lambda: dilated(2, 1, source.choice((None, 1)), offset=offset),
        "global": lambda: sliding_window(1, 0, offset=offset) | global_tokens([0]),
        "prefix": lambda: prefix(source.choice((1, torch.randint(1, S + 1, (B,), generator=generator)))),
        "documents": lambda: documents(ids if B > 1 else ids[0], offset=offset),
        "padding": lambda: source.choice((padding(keep), padding(lengths=torch.arange(B) % S + 1))),
        "blocks": lambda: blocks(layout, size=2, offset=offset),
        "dense": lambda: dense(attend),
        "not": lambda: ~sliding_window(0, 0, offset=offset),
        "or": lambda: causal(offset=offset) | prefix(1) | dense(attend),
        "and": lambda: causal(offset=offset) & padding(keep),
        "bound": lambda: bound(B, T, S, generator),
    }[kind]()
    if not dead or rows_that_see_nothing(made, T, S):
        return made
    return kill(made, B, T, S, source)


def bound(B, T, S, generator):
    """A causal window as a cache gives it: keys in any order, some slots empty, samples at different places."""
    order = torch.argsort(torch.rand(B, S, generator=generator), dim=1)
    order[:, -1] = torch.where(order[:, -1] == 0, order[:, -1], -1)
    queries = torch.arange(T)[None] + torch.randint(0, 3, (B, 1), generator=generator)
    return (causal() & sliding_window(left=3)).at(queries, order)


def rows_that_see_nothing(made, T, S) -> bool:
    return bool((~made.materialise(T, S).expand(-1, -1, T, S).any(-1)).any())


def kill(made, B, T, S, source):
    """The same mask with one row that sees nothing, or one sample."""
    attend = torch.ones(B, 1, T, S, dtype=torch.bool)
    attend[source.randrange(B), :, source.randrange(T)] = False
    if hasattr(made, "key_positions"):  # bound: what it is made of is combined before
        return (made.inner & dense(attend[:, :, :, :1])).at(made.query_positions, made.key_positions)
    return made & dense(attend)


class Coverage:
    """How often each feature, and each pair of features, was drawn."""

    def __init__(self):
        self.levels = [(name, level) for name, levels in FEATURES.items() for level in levels]
        self.pairs: Counter = Counter()

    def add(self, features: dict[str, str]) -> None:
        for one, other in itertools.combinations_with_replacement(features.items(), 2):
            self.pairs[frozenset({one, other})] += 1

    def empty(self) -> list[frozenset]:
        """The possible cells with no example."""
        cells = [
            frozenset({one, other})
            for one, other in itertools.combinations_with_replacement(self.levels, 2)
            if one[0] != other[0] or one == other
        ]
        return [cell for cell in cells if cell not in IMPOSSIBLE and self.pairs[cell] == 0]

    def table(self) -> str:
        """Counts: the diagonal is a feature alone, the rest pairs; `-` cannot be."""
        names = [f"{name}:{level}" for name, level in self.levels]
        lines = []
        for row, one in enumerate(self.levels):
            cells = [self._cell(one, other) for other in self.levels[: row + 1]]
            lines.append(f"{row:3} {names[row]:18}" + "".join(cells))
        return "\n".join([*lines, " " * 22 + "".join(f"{column:5}" for column in range(len(names)))])

    def _cell(self, one, other) -> str:
        if one[0] == other[0] and one != other:
            return "     "
        cell = frozenset({one, other})
        return "    -" if cell in IMPOSSIBLE else f"{self.pairs[cell]:5}"
