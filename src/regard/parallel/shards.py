"""Which tokens of a sequence each process holds: consecutive ones, in the order of the processes."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from regard.core.errors import ParallelError


class Shards(NamedTuple):
    """How a sequence is cut.

    Attributes:
        lengths: Tokens per process.
        rank: This process.
    """

    lengths: tuple[int, ...]
    rank: int

    @property
    def total(self) -> int:
        return sum(self.lengths)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First token of each process, and one past its last."""
        ends = list(itertools.accumulate(self.lengths))
        return list(zip([0, *ends[:-1]], ends))

    @property
    def span(self) -> tuple[int, int]:
        """That of this process."""
        return self.spans[self.rank]

    def positions(self, device: torch.device | str | None = None) -> Tensor:
        """(T,) where the tokens of this process stand in the whole sequence."""
        return torch.arange(*self.span, device=device)


def shard(x: Tensor, group: Any = None, *, dim: int = 1) -> Tensor:
    """This process's part of what every process holds whole: pieces whose lengths differ by one at most.

    Raises:
        ParallelError: Fewer tokens than processes.
    """
    group = group.get_group() if hasattr(group, "get_group") else group
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    return x.tensor_split(size, dim=dim)[rank] if x.shape[dim] >= size else _too_few(x.shape[dim], size)


def check_lengths(lengths: Any, own: int, rank: int, size: int, what: str) -> Shards:
    """Shards of lengths that the caller states.

    Raises:
        ParallelError: Another number of processes, or this process holds another number of tokens.
    """
    lengths = tuple(int(length) for length in lengths)
    if len(lengths) != size:
        raise ParallelError(f"lengths has {len(lengths)} entries, {list(lengths)}, and the group has {size} processes")
    if lengths[rank] != own:
        raise ParallelError(f"lengths says {lengths[rank]} tokens for process {rank}, and its {what} have {own}")
    if min(lengths) < 1:
        _too_few(sum(lengths), size)
    return Shards(lengths, rank)


def _too_few(tokens: int, size: int) -> Any:
    raise ParallelError(
        f"{tokens} tokens cannot be cut for {size} processes, each of which needs one; take a smaller group"
    )
