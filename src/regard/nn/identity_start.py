"""A gate that starts as the identity: the pretrained network around it computes what it did before.

With `blend` at 0 the gate is exactly 1, whatever the weights behind it are; the gradient of `blend` is not 0, so
training can let the gate in. Idea: Bachlechner et al. 2020, arXiv:2003.04887 (ReZero), put on the gate.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def make_blend(zero_init: bool, *, device: torch.device | None, dtype: torch.dtype | None) -> nn.Parameter | None:
    """The blend of a new gate: (1,) and 0 for `zero_init`, else none: the gate is used as it is."""
    return nn.Parameter(torch.zeros(1, device=device, dtype=dtype)) if zero_init else None


def blend_gate(gate: Tensor, blend: Tensor | None) -> Tensor:
    """`1 + blend * (gate - 1)`: 1 at blend 0, the gate at blend 1; within [0, 1] while both are."""
    return gate if blend is None else 1 + blend * (gate - 1)
