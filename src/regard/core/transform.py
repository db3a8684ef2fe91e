"""Whether a function transform is at work: torch tells it only through a private operator, so that is asked here alone."""

from __future__ import annotations

import torch
from torch import Tensor

_FUNCTORCH = getattr(torch._C, "_functorch", None)


def under_vmap(*tensors: Tensor) -> bool:
    """Whether any tensor is batched by `torch.vmap`. False while compiling, where transforms are traced away, and False
    where this torch has no way to tell."""
    if _FUNCTORCH is None or torch.compiler.is_compiling():
        return False
    return any(_batched(x) for x in tensors)


def wrapped(tensor: Tensor) -> bool:
    """Whether a function transform (vmap, grad, jvp) has wrapped the tensor, so that its values cannot be read."""
    return _FUNCTORCH is not None and _FUNCTORCH.is_functorch_wrapped_tensor(tensor)


def _batched(x: Tensor) -> bool:
    while _FUNCTORCH is not None and _FUNCTORCH.is_functorch_wrapped_tensor(x):
        if _FUNCTORCH.is_batchedtensor(x):
            return True
        x = _FUNCTORCH.get_unwrapped(x)
    return False
