"""When random features or hashes are drawn anew: after every so many forward passes in training, or only when asked."""

from __future__ import annotations

import torch

from regard.core.errors import RegardError, ShapeError


class Redraws:
    """Counts forward passes in training.

    Args:
        every: After how many passes a new draw is due; None: never by itself.

    Raises:
        ShapeError: `every` is smaller than 1.
    """

    def __init__(self, every: int | None):
        if every is not None and every < 1:
            raise ShapeError(f"redraw_every must be None or at least 1, got {every}")
        self.every = every
        self.passes = 0  # since the last draw

    def due(self, training: bool) -> bool:
        """Whether to draw before this pass, which is counted if it is one of training.

        Raises:
            RegardError: In training under `torch.compile`, whose graph would keep one draw for ever.
        """
        if not training or self.every is None:
            return False
        if torch.compiler.is_compiling():
            raise RegardError(
                f"redraw_every={self.every} counts forward passes, which a compiled graph cannot; "
                "build the layer with redraw_every=None and call layer.redraw() in the training loop"
            )
        due = self.passes >= self.every
        self.passes = 1 if due else self.passes + 1
        return due
