"""What a checked module returned, call by call: two runs of the same check are compared by it.

A mutant that survives without any output, gradient or refusal being different cannot be noticed by a rule: it changes which way the
numbers are computed, or a line whose result nothing reads. A mutant that survives with other numbers was missed.
"""

from __future__ import annotations

import math
from typing import Any

NOISE = {"torch.float64": 1e-9, "torch.float32": 1e-4}  # of the norm; another path rounds otherwise
NOISE_LOW = 3e-2


class Outputs:
    """While it is entered, notes a fingerprint of what each call of one class returns, and of the gradients that come back to it."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.seen: list[list[Any]] = []

    def __enter__(self) -> Outputs:
        from torch.nn.modules.module import register_module_forward_hook

        self._handle = register_module_forward_hook(self._forward, always_call=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _forward(self, module: Any, inputs: Any, output: Any) -> None:
        if type(module).__name__ == self.kind.__name__:
            self.seen.append(fingerprint(output))


def fingerprint(output: Any) -> list[Any]:
    """[dtype, shape, norm, inner product with a fixed wave, count of what is not finite] of each tensor inside."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    if isinstance(output, torch.Tensor):
        if type(output) is not torch.Tensor or output.device.type == "meta":
            return []
        with torch.no_grad(), _disable_current_modes():
            values = output.detach().double().flatten()
            finite = values.isfinite()
            values = values.where(finite, 0.0)
            wave = torch.arange(values.numel(), dtype=torch.float64).mul(0.7).cos()
            numbers = [float(values.norm()), float(values @ wave), int((~finite).sum())]
        return [[str(output.dtype), list(output.shape), *numbers]]
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        return [mark for part in output for mark in fingerprint(part)]
    return []


def first_difference(mine: list[Any], plain: list[Any]) -> str:
    """Where two runs part, in words; empty when they do not."""
    if len(mine) != len(plain):
        return f"{len(mine)} calls instead of {len(plain)}"
    for number, (one, other) in enumerate(zip(mine, plain, strict=True)):
        if len(one) != len(other):
            return f"call {number}: {len(one)} outputs instead of {len(other)}"
        for a, b in zip(one, other, strict=True):
            if a[:2] != b[:2]:
                return f"call {number}: {a[0]} {a[1]} instead of {b[0]} {b[1]}"
            if a[4] != b[4]:
                return f"call {number}: {a[4]} numbers that are not finite instead of {b[4]}"
            room = NOISE.get(a[0], NOISE_LOW) * max(a[2], b[2], 1e-12) * math.sqrt(2)
            if abs(a[2] - b[2]) > room or abs(a[3] - b[3]) > room * math.sqrt(max(math.prod(a[1]), 1)):
                return f"call {number}: {a[1]} with norm {a[2]:.6g} instead of {b[2]:.6g}"
    return ""
