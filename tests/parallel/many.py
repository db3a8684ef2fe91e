"""Run a function in several gloo processes, and get back what each of them says."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def processes(count: int, work: Callable[..., Any], folder: pathlib.Path, *given: Any) -> list[Any]:
    """What `work(rank, *given)` returned in each process, as plain data."""
    mp.spawn(_one, args=(count, work, str(folder), given), nprocs=count)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]


def _one(rank: int, count: int, work: Callable[..., Any], folder: str, given: tuple[Any, ...]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=count)
    said = work(rank, *given)
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
