"""Compiled models: capture sees them run uncompiled; here is how far that is from what the compiled code gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regard.core.errors import CaptureError


def is_compiled(model: nn.Module) -> bool:
    """Whether any part of the model is compiled."""
    return any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) is not None for m in model.modules())


@torch.no_grad()
def compiled_difference(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> float:
    """The largest absolute difference between the outputs of the compiled and the uncompiled model, on one input.

    Tensors in dictionaries, lists, tuples and dataclass-like outputs are compared in order; where both have the same inf or NaN
    they agree. Buffers that the model changes (caches, running means) are changed twice.

    Raises:
        CaptureError: The outputs hold no floating-point tensors.
    """
    devices = sorted(
        {p.device.index for p in model.parameters() if p.device.type == "cuda" and p.device.index is not None}
    )
    with torch.random.fork_rng(devices=devices):
        compiled = _floats(model(*args, **kwargs))
    with torch.random.fork_rng(devices=devices), torch.compiler.set_stance("force_eager"):
        plain = _floats(model(*args, **kwargs))
    if not plain:
        raise CaptureError(f"the output of {type(model).__name__} holds no floating-point tensors to compare")
    return max(_apart(a, b) for a, b in zip(compiled, plain, strict=True))


def _floats(output: Any) -> list[Tensor]:
    leaves = tree_leaves(dict(output) if hasattr(output, "items") else output)
    return [x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()]


def _apart(a: Tensor, b: Tensor) -> float:
    both = (a == b) | (a.isnan() & b.isnan())
    return float((a.double() - b.double()).abs().masked_fill(both, 0.0).max()) if a.numel() else 0.0
