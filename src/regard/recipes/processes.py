"""One process or several: what torchrun says of them, and sums over all."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed import all_reduce, init_process_group, is_initialized


class Processes(NamedTuple):
    """How many processes train together, which this one is, and where it computes."""

    count: int
    rank: int
    device: torch.device

    @classmethod
    def here(cls) -> Processes:
        """As torchrun's environment says; without torchrun: one. Joins the group at first use: NCCL on GPUs, else gloo."""
        count, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        gpu = torch.cuda.is_available()
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if gpu else torch.device("cpu")
        if count > 1 and not is_initialized():
            if gpu:
                torch.cuda.set_device(device)
            init_process_group("nccl" if gpu else "gloo")
        return cls(count, rank, device)

    def total(self, *values: float) -> list[float]:
        """The sums over all processes."""
        if self.count == 1:
            return [float(value) for value in values]
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        all_reduce(summed)
        return summed.tolist()

    def spread(self, model: nn.Module) -> nn.Module:
        """The model, so that gradients are averaged over the processes."""
        if self.count == 1:
            return model
        return nn.parallel.DistributedDataParallel(model, device_ids=[self.device.index] if self.device.index else None)
