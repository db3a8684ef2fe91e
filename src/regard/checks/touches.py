"""What a forward does with each of its arguments, seen while it runs: how far a call came, and what its failure was about."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

SHAPING = {  # functions after which a tensor still holds the numbers of an argument
    "view", "reshape", "unsqueeze", "squeeze", "expand", "expand_as", "transpose", "permute", "t", "contiguous", "clone", "detach", "to", "long",
    "int", "float", "double", "bool", "unbind", "chunk", "split", "flatten", "__getitem__", "__invert__", "logical_not", "bitwise_not", "repeat",
    "repeat_interleave", "type", "type_as", "cpu", "select", "narrow", "clamp", "movedim", "swapaxes", "__iter__",
    "__get__", "stack", "cat", "concat", "concatenate", "tril", "triu", "add", "__add__", "__radd__", "sub", "__sub__", "__rsub__", "rsub",
}  # fmt: skip
ADDING = {"add", "__add__", "__radd__", "__iadd__", "add_"}
WITH_A_NUMBER = {"__eq__", "eq", "__ne__", "ne", "mul", "__mul__", "__rmul__", "div", "__truediv__", "gt", "__gt__", "neg", "__neg__"}  # fmt: skip
TURNING = {"__invert__", "logical_not", "bitwise_not", "__eq__", "eq"}
COMPARING = {
    "lt",
    "le",
    "gt",
    "ge",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "less",
    "greater",
    "less_equal",
    "greater_equal",
}
INDEXING = {"__getitem__", "index_select", "gather", "take_along_dim", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_add_", "scatter_add_", "scatter_", "scatter_reduce_"}  # fmt: skip


class Touches(TorchFunctionMode):
    """Follows the tensors of a call's arguments.

    calls: how many functions of torch computed something from an argument; the one that failed counts.
    last: the arguments that the latest of them were computed from.
    vocabulary: argument -> the rows of the smallest table that its numbers, as they are, look up.
    indices: arguments that are indices into another tensor.
    added: argument -> the most axes of what it is added to as it is, where that was computed from others, as scores are.
    fills: argument -> does True fill, and hide (False: it was turned round first)? For those that say where scores are filled.
    counts: arguments that are compared with whole numbers, one after the other.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.calls = 0
        self.last: tuple[str, ...] = ()
        self.vocabulary: dict[str, int] = {}
        self.indices: dict[str, int] = {}
        self.counts: set[str] = set()
        self.added: dict[str, int] = {}
        self.fills: dict[str, bool] = {}
        self._turned: set[int] = set()
        self._loose: dict[int, frozenset[str]] = {}
        self._exact: dict[int, str] = {}
        self._alive: list[Tensor] = []
        for name, value in given.items():
            for t in tensors(value):
                self._follow(t, frozenset((name.partition("[")[0],)), name.partition("[")[0])

    def _follow(self, t: Tensor, names: frozenset[str], exact: str | None) -> None:
        self._alive.append(t)
        self._loose[id(t)] = names
        if exact is not None:
            self._exact[id(t)] = exact

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        parts = tensors([args, kwargs])
        roots = frozenset().union(*(self._loose.get(id(t), frozenset()) for t in parts))
        exact = {self._exact[id(t)] for t in parts if id(t) in self._exact}
        if roots:
            self.last = tuple(sorted(sorted(roots), key=lambda n: n not in exact))
        self.calls += bool(roots) and name not in ("__get__", "size", "dim")
        self._asked(name, args, kwargs, parts)
        out = func(*args, **kwargs)
        kept = name in SHAPING or (name in WITH_A_NUMBER and len(parts) == 1)
        one = next(iter(exact)) if len(exact) == 1 and len(roots) == 1 and kept else None
        round_again = one is not None and ((name in TURNING) != any(id(t) in self._turned for t in parts))
        for t in tensors(out) if roots else ():
            if round_again and id(t) not in self._loose:
                self._turned.add(id(t))
            if id(t) not in self._loose:
                self._follow(t, roots, one)
        return out

    def _asked(self, name: str, args: Any, kwargs: Any, parts: list[Tensor]) -> None:
        if name in ("embedding", "embedding_bag") and len(parts) > 1 and id(parts[0]) in self._exact:
            who, rows = self._exact[id(parts[0])], parts[1].shape[0]
            self.vocabulary[who] = min(rows, self.vocabulary.get(who) or rows)
        elif name == "one_hot" and id(parts[0]) in self._exact:
            self.vocabulary.setdefault(self._exact[id(parts[0])], int(kwargs.get("num_classes", (*args, -1)[1])))
        elif name in INDEXING and parts:
            for t in parts[1:]:
                if id(t) in self._exact and self._exact[id(t)] != self._exact.get(id(parts[0])):
                    size = min(parts[0].shape, default=0) if name != "__getitem__" else parts[0].shape[0]
                    self.indices[self._exact[id(t)]] = size
        elif name in ADDING and len(parts) == 2:
            for mine, other in (parts, parts[::-1]):
                if id(mine) in self._exact and id(other) not in self._exact and id(other) in self._loose:
                    who = self._exact[id(mine)]
                    self.added[who] = max(other.ndim, self.added.get(who, 0))
        elif name in ("masked_fill", "masked_fill_") and len(parts) > 1 and id(parts[1]) in self._exact:
            self.fills[self._exact[id(parts[1])]] = id(parts[1]) not in self._turned
        elif name in COMPARING and len(parts) == 2:
            for mine, other in (parts, parts[::-1]):
                if (
                    id(mine) in self._exact
                    and id(other) not in self._loose
                    and not other.is_floating_point()
                    and other.numel() > 1
                ):
                    self.counts.add(self._exact[id(mine)])


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in a nest of tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return []
