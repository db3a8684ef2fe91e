"""How much memory a training process holds now: CUDA's allocator where the model lives there, else the process."""

from __future__ import annotations

import torch
from torch import nn


def memory_now(model: nn.Module) -> tuple[str, int] | None:
    """("cuda" | "process", bytes); None where neither can be read.

    On CUDA the peak so far, since what is freed after each step is what runs out; the user's peak counter is not reset.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if device.type == "cuda":
        return "cuda", torch.cuda.max_memory_allocated(device)
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        import resource

        return "process", pages * resource.getpagesize()
    except (OSError, ImportError, ValueError, IndexError):
        return None
