"""The running average of a model's weights: what is tested and kept, while the weights themselves go on learning.

Each step is a noisy guess; the mean of the last ones is nearer to where they lead (Polyak and Juditsky 1992; decay as in Tan and Le
2019). The average is never trained, so losses are those of a run without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.core.errors import DataError


class Average:
    """`kept`: the average of every parameter and buffer of floating point, by name.

    Args:
        model: Whose weights; they are read where they lie, so they must be changed in place, as optimisers and `load_state_dict` do.
        decay: The share of the average that a step keeps, from 0 to below 1; about the last `1 / (1 - decay)` steps count. 0: no average.

    Raises:
        DataError: A decay below 0, or of 1 and more.
    """

    def __init__(self, model: nn.Module, decay: float):
        if not 0 <= decay < 1:
            raise DataError(
                f"average={decay} must be from 0, none, to below 1, such as 0.99: the mean of about 100 steps"
            )
        floating = {name: x for name, x in model.state_dict().items() if x.is_floating_point()}
        self.decay, self._own = decay, floating if decay else {}
        self.kept: dict[str, Tensor] = {name: x.clone() for name, x in self._own.items()}

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Take in the weights after step number `step`, counted from 1. Early ones are forgotten sooner: they are far from the end."""
        if self.kept:
            keep = min(self.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(self.kept.values()), list(self._own.values()), 1 - keep)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """The model with the average in it; behind the block it has its own weights again, bit for bit."""
        before = {name: x.clone() for name, x in self._own.items()}
        self._put(self.kept)
        try:
            yield
        finally:
            self._put(before)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, x in self._own.items():
            x.copy_(values[name])
