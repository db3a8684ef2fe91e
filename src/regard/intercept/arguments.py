"""Reading an operator's arguments: which tensors, which scalar factor, which axes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.intercept import axes as ax


def tensors_of(args: tuple) -> list[Tensor]:
    """The tensors among the arguments, those in lists included."""
    found = []
    for arg in args:
        if isinstance(arg, Tensor):
            found.append(arg)
        elif isinstance(arg, (tuple, list)):
            found.extend(a for a in arg if isinstance(a, Tensor))
    return found


def scalar_factor(name: str, args: tuple) -> float | Tensor | None:
    """The factor of `mul` or `div` by a number or a one-element tensor; 1 / x for div. None when it is a real tensor."""
    if len(args) < 2:
        return None
    for value, is_divisor in ((args[1], name == "div"), (args[0], False)):
        if isinstance(value, (int, float)):
            return 1.0 / value if is_divisor and value else float(value)
        if isinstance(value, Tensor) and value.numel() == 1 and (value is args[1] or args[1].numel() > 1):
            value = value.detach()
            return value.reciprocal() if is_divisor else value
    return None


def other_operand(tensor: Tensor, args: tuple, kwargs: dict) -> Any:
    """The first operand that is not `tensor`: a tensor or a number."""
    rest = [a for a in args if a is not tensor and (isinstance(a, (Tensor, int, float)) and not isinstance(a, bool))]
    return rest[0] if rest else kwargs.get("other")


def reduced_axes(args: tuple, kwargs: dict, rank: int) -> list[int]:
    """The axes that a reduction takes away, counted from 0."""
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    if dim is None or isinstance(dim, Tensor) or dim == []:
        return list(range(rank))
    return [d % rank for d in (dim if isinstance(dim, (tuple, list)) else [dim]) if isinstance(d, int)]


def permuted(name: str, axes: ax.Axes, args: tuple) -> ax.Axes:
    """The axes after permute, transpose or t."""
    order = list(range(len(axes)))
    if name == "permute":
        order = [d % len(axes) for d in args[1]]
    elif name == "transpose":
        a, b = args[1] % len(axes), args[2] % len(axes)
        order[a], order[b] = order[b], order[a]
    else:
        order.reverse()
    return tuple(axes[i] for i in order)
