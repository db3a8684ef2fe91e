"""The same module with other weights: what holds for it as well is no accident of one initialisation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.subject import NOISE

SEEDS = (1, 2, 3)
SHIFTS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


def redrawn(case: Case, seed: int) -> Any:
    """A copy whose weights are drawn anew, as many positive as negative, about as large as they were.

    Weights of norms stay positive: 1 is what they start from.
    """
    module = copy.deepcopy(case.subject.instance(fresh=True))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            if not isinstance(part, SHIFTS):
                for p in part.parameters(recurse=False):
                    if p.is_floating_point() and p.numel() > 1:
                        size = p.square().mean().sqrt().clamp_min(NOISE)
                        p.copy_(size * torch.randn(p.shape, generator=generator).to(p.device, p.dtype))
    return module


def matters(case: Case, call: Call, source: str) -> bool:
    """With other weights, does the output change when this stream does? False for a function."""
    batch = case.sample(call=call)
    other = {**batch, source: case.sample(1, call=call)[source]}
    for seed in SEEDS if case.subject.is_module else ():
        a, b = (case.run(x, call=call, module=redrawn(case, seed)) for x in (batch, other))
        if case.difference(a, b) > case.tolerance:
            return True
    return False


def other_numbers(case: Case) -> Iterator[Call]:
    """The call with another number for each single number that was made up: a factor of 0 leaves a branch without a say."""
    fixed = case.call.fixed
    for name, value in fixed.items():
        made: Any = value(case.sample(), case.subject.dtype) if callable(value) else value
        if isinstance(made, Tensor) and made.is_floating_point() and made.numel() == 1:
            yield case.call.but(fixed={**fixed, name: torch.full_like(made, 0.7)})
        elif type(made) in (int, float):
            yield case.call.but(fixed={**fixed, name: 0.7})
