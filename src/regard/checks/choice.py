"""What a module chooses by: the scores that reach a top-k, a sort or an arg-max while it runs. No gradient passes there."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

CHOICES = {"topk", "sort", "argsort", "argmax", "argmin", "kthvalue"}


class Choices(TorchDispatchMode):
    """Keeps a copy of what each choice looked at, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in CHOICES and args and isinstance(args[0], Tensor) and args[0].is_floating_point():
            self.scores.append(args[0].detach().clone())
        return func(*args, **(kwargs or {}))


def differ(a: list[Tensor], b: list[Tensor]) -> bool:
    """Did a choice look at other scores?"""
    return len(a) == len(b) and any(x.shape == y.shape and bool((x != y).any()) for x, y in zip(a, b))
