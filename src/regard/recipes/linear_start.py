"""A linear map from the past of a series to its future, fitted at once by ridge regression: where a forecaster starts from.

Axes: B windows, T rows of the past, S rows ahead, C channels, F numbers that the map reads, G numbers that it makes.
It reads the past less its last row, and that row; it makes what is ahead, less that row. `own`: each channel by itself, with the same
map for all (F = T + 1, G = S); else one map of all channels together (F = (T + 1) C, G = S C).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from regard.core.errors import DataError

PENALTIES = (100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
MOST = 6_000  # F, whose square must fit in memory
Blocks = Iterable[
    tuple[Tensor, ...]
]  # of windows; each starts with the past (B, T, C) and ends with what is ahead (B, S, C)


class LinearStart(nn.Module):
    """The fitted map. Its numbers are buffers: saved, not trained.

    Args:
        past, ahead, channels: T, S, C.
        own: Each channel by itself.

    Raises:
        DataError: More numbers to read than can be fitted.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, past: int, ahead: int, channels: int, *, own: bool):
        super().__init__()
        self.own = own
        together = 1 if own else channels
        reads = (past + 1) * together
        if reads > MOST:
            raise DataError(
                f"one map of {channels} channels and {past} rows reads {reads:,} numbers, more than {MOST:,}; --set skip=own, or a shorter past"
            )
        self.register_buffer("weight", torch.zeros(reads, ahead * together))
        self.register_buffer("bias", torch.zeros(ahead * together))

    def read(self, past: Tensor) -> Tensor:
        """(B, T, C) to (B, F), or (B C, F) for `own`."""
        last = past[:, -1:]
        x = torch.cat([past - last, last], 1).transpose(1, 2)  # (B, C, T + 1)
        return x.flatten(0, 1) if self.own else x.flatten(1)

    def forward(self, past: Tensor) -> Tensor:
        """(B, T, C) to (B, S, C)."""
        made = self.read(past) @ self.weight + self.bias
        made = made.view(len(past), past.shape[2], -1).transpose(1, 2)  # (B, S, C)
        return made + past[:, -1:]

    @torch.no_grad()
    def fit(self, train: Callable[[], Blocks], val: Callable[[], Blocks]) -> float:
        """Fit by least squares with the one of PENALTIES that is best on `val`; returns its mean squared error there."""
        whole = self.weight.double()
        square, product = whole.new_zeros(len(whole), len(whole)), torch.zeros_like(whole)
        read, made, count = whole.new_zeros(len(whole)), whole.new_zeros(whole.shape[1]), 0
        for past, *_, ahead in train():
            x, y = self.read(past).double(), self._target(past, ahead).double()
            square += x.T @ x
            product += x.T @ y
            read, made, count = read + x.sum(0), made + y.sum(0), count + len(x)
        read, made = read / count, made / count
        square, product = square - count * torch.outer(read, read), product - count * torch.outer(read, made)
        best = (float("inf"), self.weight, self.bias)
        for penalty in PENALTIES:
            weight = torch.linalg.solve(square + penalty * torch.eye(len(square), dtype=square.dtype), product)
            self.weight, self.bias = weight.float(), (made - read @ weight).float()
            best = min(best, (self.error(val()), self.weight, self.bias), key=lambda each: each[0])
        error, self.weight, self.bias = best
        return error

    def error(self, blocks: Blocks) -> float:
        """The mean squared error on windows."""
        return float(torch.cat([(self(past) - ahead).square().mean((1, 2)) for past, *_, ahead in blocks]).mean())

    def _target(self, past: Tensor, ahead: Tensor) -> Tensor:
        """(B, S, C) to (B, G), or (B C, G) for `own`."""
        y = (ahead - past[:, -1:]).transpose(1, 2)
        return y.flatten(0, 1) if self.own else y.flatten(1)
