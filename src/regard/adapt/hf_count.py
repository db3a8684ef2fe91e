"""Who attends in a model, and with whom: which attention modules ran in a forward, and whether they called ours.

A model may accept an attention implementation and never call it. So the first forward is watched: a module that is named
an attention, holds no other such module, ran, and did not call our function, attends by itself.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn


class Count:
    """Forwards of attention modules, and calls of our function in them, until `stop()`.

    Attributes:
        calls: Path of a module -> how often our function was called for it.
        ran: Path of a leaf-most attention module -> how often it ran.
    """

    def __init__(self, model: nn.Module):
        self.paths: dict[nn.Module, str] = {module: path for path, module in model.named_modules()}
        self.calls: Counter[str] = Counter()
        self.ran: Counter[str] = Counter()
        self._before: dict[nn.Module, int] = {}
        self._alone: Counter[str] = Counter()
        self._handles: list[Any] = []
        for module in attention_modules(model):
            self._handles += [
                module.register_forward_pre_hook(self._enter),
                module.register_forward_hook(self._leave),
            ]

    def called(self, module: nn.Module) -> None:
        """Our function runs for this module."""
        self.calls[self.paths.get(module, type(module).__name__)] += 1

    def left(self) -> list[str]:
        """Paths of the modules that attended without us, in the order of the model."""
        return [path for path in self.paths.values() if self._alone[path]]

    def stop(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter(self, module: nn.Module, given: Any) -> None:
        self._before[module] = self.calls.total()

    def _leave(self, module: nn.Module, given: Any, output: Any) -> None:
        path = self.paths[module]
        self.ran[path] += 1
        if self.calls.total() == self._before.pop(module, -1):
            self._alone[path] += 1


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules whose class, or a class under it, is named an attention, and in which no other such module lies."""
    named = [m for m in model.modules() if any("attention" in base.__name__.lower() for base in type(m).__mro__)]
    return [m for m in named if not any(other is not m and other in set(m.modules()) for other in named)]


def in_classes(model: nn.Module, paths: list[str]) -> str:
    """ "12 BertSelfAttention (encoder.layer.0.attention.self, ...)" of each class among these paths."""
    grouped: dict[str, list[str]] = {}
    for path in paths:
        grouped.setdefault(type(model.get_submodule(path)).__name__, []).append(path)
    return "; ".join(f"{len(of)} {name} ({of[0]}{', ...' if len(of) > 1 else ''})" for name, of in grouped.items())
