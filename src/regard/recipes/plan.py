"""What is trained, and how: the two arguments of the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Batch(NamedTuple):
    """What a model gets, and by how much its loss counts: a number of samples, tokens or characters."""

    inputs: tuple[Tensor, ...]
    weight: float


@dataclass
class Work:
    """What is trained: `loss(model, inputs)` is the sum over the batch; `evaluate(model)` gives numbers, of which `score` decides."""

    model: nn.Module
    order: Callable[[int], Tensor]  # step -> indices of the samples
    collate: Callable[[Tensor], Batch]  # indices -> a batch
    loss: Callable[[nn.Module, tuple[Tensor, ...]], Tensor]
    evaluate: Callable[[nn.Module], dict[str, float]]
    score: str
    higher: bool = True
    groups: list[dict[str, Any]] | None = None  # of the optimiser; None: one


@dataclass(frozen=True)
class Plan:
    """How it is trained. Counts are steps; `patience` counts evaluations without improvement, 0: none; `watch` 0: off; `average`: the
    share of the running average of the weights that a step keeps, 0: the weights themselves are evaluated and kept."""

    steps: int
    lr: float = 1e-3
    warmup: int = 20
    weight_decay: float = 0.01
    clip: float = 1.0
    average: float = 0.0
    accumulate: int = 1
    precision: str = "float32"
    evaluate: int = 200
    patience: int = 0
    save: int = 100
    watch: int = 0
    compile: bool = False
    seed: int = 0

    def rate(self, step: int) -> float:
        """The learning rate of a step: a line up, then half a cosine down to a hundredth."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


def not_finite(model: nn.Module, step: int, loss: float) -> str:
    """The refusal of a step whose loss or gradient is NaN or infinite."""
    bad = [name for name, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()]
    return (
        f"step {step + 1}: the loss is {loss} and {len(bad)} gradients are not finite, the first of {', '.join(bad[:3]) or 'none'}; "
        "take a smaller --lr, or --precision float32; `regard diagnose` on the file of --watch says more"
    )
