"""What a fused kernel of torch must not be given: keys and values of different lengths.

The CPU kernel does not look: its backward then reads and writes past the end, and the process dies later, somewhere else
(torch 2.13). So calls that could do that are looked at first, and refused in words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.core.errors import ShapeError

FUSED = torch.nn.functional.scaled_dot_product_attention


class _Lengths(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is FUSED:
            key, value = (args[i] if len(args) > i else kwargs.get(n) for i, n in ((1, "key"), (2, "value")))
            if isinstance(key, Tensor) and isinstance(value, Tensor) and key.shape[-2:-1] != value.shape[-2:-1]:
                raise ShapeError(
                    f"scaled_dot_product_attention got {key.shape[-2]} keys and {value.shape[-2]} values: keys and values come from"
                    " different tokens"
                )
        return func(*args, **kwargs)


def safe_kernels(given: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """A context for one call, on guard where its arguments have streams of more than one length."""
    shapes = {tuple(x.shape[:-1]) for x in given.values() if isinstance(x, Tensor) and x.ndim >= 3}
    return _Lengths() if len(shapes) > 1 else contextlib.nullcontext()
