"""Which samples a step sees: a pure function of the seed and the step, so that a resumed run needs no memory of it.

Axes: N samples; an epoch is one permutation of them, cut into batches; what is left over at its end is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import DataError

POOL = 40  # batches whose samples are sorted by length together: enough to save padding, few enough to stay random


class Order:
    """`order(step)`: the indices of the samples of that step, for steps 0, 1, 2 ...

    Args:
        count: N.
        batch: Samples in a step.
        seed: Of the permutations.
        lengths: Of the samples; samples of a batch then have about the same length (bucketing).

    Raises:
        DataError: Fewer samples than one batch has.

    >>> sorted(Order(6, 3, seed=0)(0).tolist() + Order(6, 3, seed=0)(1).tolist())
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, count: int, batch: int, *, seed: int, lengths: Sequence[int] | None = None):
        if batch < 1 or count < batch:
            raise DataError(f"{count} samples are fewer than one batch of {batch}; take a smaller --batch or more data")
        self.count, self.batch, self.seed = count, batch, seed
        self.lengths = None if lengths is None else torch.as_tensor(lengths)
        self._epoch: tuple[int, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in N samples."""
        return self.count // self.batch

    def __call__(self, step: int) -> Tensor:
        """(batch,) indices."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._permutation(epoch)
        return self._epoch[1][place * self.batch : (place + 1) * self.batch]

    def _permutation(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        drawn = torch.randperm(self.count, generator=generator)[: self.steps_per_epoch * self.batch]
        if self.lengths is None:
            return drawn
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in drawn.split(POOL * self.batch)]
        batches = torch.cat(pools).view(-1, self.batch)
        return batches[torch.randperm(len(batches), generator=generator)].flatten()


def padded(rows: Sequence[Sequence[int] | Tensor], value: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of ids as (B, T) with `value` behind the shorter ones, and the lengths (B,)."""
    tensors = [torch.as_tensor(row, dtype=torch.long) for row in rows]
    lengths = torch.tensor([len(row) for row in tensors])
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value), lengths
