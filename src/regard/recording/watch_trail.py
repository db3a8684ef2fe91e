"""Where the first non-finite value of a forward pass arose: every module's output in the order in which it was complete.

A module is complete before the module it stands in, and an attention site before its module; so the first non-finite entry is the
place where it arose. One small reduction per module; nothing is read back until the pass is over.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


@dataclass
class Entry:
    """One finished computation. kind: "input", "attention" or "module"."""

    kind: str
    path: str
    where: str
    limits: Tensor  # (2,): smallest and largest value; NaN if any is
    module: nn.Module | None = None
    masked_rows: float = 0.0


class Trail:
    """Outputs of one forward pass, as their limits."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: str, path: str, value: Any, *, where: str | None = None, module=None, masked_rows=0.0) -> None:
        """Note a tensor, or the first tensor of a tuple, mapping or output object."""
        tensor = first_tensor(value)
        if tensor is not None:
            limits = torch.stack(torch.aminmax(tensor.detach()))
            where = user_line() if where is None else where
            self.entries.append(Entry(kind, path, where, limits, module, masked_rows))

    def first(self) -> dict[str, Any] | None:
        """The first non-finite entry as a row: what, path, where, and whether its own parameters are finite."""
        if not self.entries:
            return None
        device = self.entries[-1].limits.device
        limits = torch.stack([e.limits.to(device, torch.float32) for e in self.entries])
        masks = torch.tensor([e.kind != "attention" for e in self.entries], device=device)
        bad = ~(limits[:, 1].isfinite() & (limits[:, 0].isfinite() | masks))  # a module may make a mask of -inf
        if not bool(bad.any()):
            return None
        entry = self.entries[int(bad.nonzero()[0])]
        return {
            "what": entry.kind,
            "path": entry.path,
            "where": entry.where,
            "module": type(entry.module).__name__ if entry.module is not None else "",
            "parameters_finite": parameters_finite(entry.module),
            "masked_rows": entry.masked_rows,
        }


def parameters_finite(module: nn.Module | None) -> bool:
    """Whether every parameter of a module, and of what is in it, is finite."""
    return module is None or all(bool(p.detach().isfinite().all()) for p in module.parameters())


def first_tensor(value: Any) -> Tensor | None:
    """The first non-empty floating tensor in a result; logits come first where an output object has them."""
    if isinstance(value, Tensor):
        plain = (
            value.is_floating_point() and value.numel() > 0 and value.layout == torch.strided and not value.is_nested
        )
        return value if plain else None
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return next((t for v in value if (t := first_tensor(v)) is not None), None)
    return None


def user_line() -> str:
    """ "file:line" of the innermost frame outside torch and regard."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH, _OURS, "<")):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
