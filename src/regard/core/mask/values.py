"""What may be learnt from the values of a mask, and when: eagerly, in constructors and converters, never in attention()."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import MaskError
from regard.core.transform import wrapped

HIDDEN_BELOW = -80.0  # exp(-80) is 2e-35: a weight that no float32 output can show


def readable(tensor: Tensor) -> bool:
    """Whether the values can be looked at: not while tracing, not on the meta device, not under vmap."""
    if (
        torch.compiler.is_compiling()
        or tensor.device.type == "meta"
        or type(tensor) not in (Tensor, torch.nn.Parameter)
    ):
        return False
    return not wrapped(tensor)


def attend_from_additive(mask: Tensor, name: str) -> Tensor:
    """The boolean, True = attend, of an additive mask whose values are 0 and c <= -80.

    Raises:
        MaskError: other values, which are a bias; or the values cannot be read here.
    """
    if not readable(mask):
        raise MaskError(f"{name} is {mask.dtype}, and its values cannot be read while tracing; convert it before")
    attend = mask == 0
    other = ~attend & ~(mask <= HIDDEN_BELOW)
    if bool(other.any()):
        raise MaskError(
            f"{name} is {mask.dtype} with the value {float(mask[other][0]):.4g}, which neither attends (0) nor hides "
            f"(<= {HIDDEN_BELOW:g}); scores to add go in as bias=, a boolean mask says True = attend"
        )
    return attend
