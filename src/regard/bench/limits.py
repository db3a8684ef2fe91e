"""What this machine can do at most on the threads it is given: matrix products and memory; and how near a row comes.

The share is that of a roofline: the time that the operations or the bytes would take at these limits, whichever is longer, over
the time that was measured.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from importlib import metadata

import torch

from regard.bench.timing import normal, seconds

COPIED = 1 << 25  # float32 numbers: 128 MiB, more than the caches of most machines
PEERS = (
    "torch", "numpy", "transformers", "local-attention", "x-transformers", "performer-pytorch", "reformer-pytorch",
    "linformer-pytorch", "keras", "timm",
)  # fmt: skip


def measure(*, rounds: int = 7, size: int = 1024) -> dict:
    """Measure the limits.

    Returns:
        `gemm`: dtype name -> operations per second of a square product into memory that is there; `copy`: bytes read and written per
        second of a copy that fits in no cache.
    """
    gemm = {}
    for dtype in (torch.float32, torch.bfloat16):
        left, right = (normal(size, size, seed=seed, dtype=dtype) for seed in (0, 1))
        out = torch.empty_like(left)
        gemm[str(dtype).removeprefix("torch.")] = (
            2 * size**3 / _least(lambda a=left, b=right, c=out: torch.mm(a, b, out=c), rounds)
        )
    source = torch.ones(COPIED)
    into = torch.empty_like(source)
    return {"gemm": gemm, "copy": 2 * source.nbytes / _least(lambda: into.copy_(source), rounds)}


def share(made: dict, limits: dict | None) -> float | None:
    """How near a row's own time comes to the limit of the machine, 1 = at it; None where the row does not say its work."""
    work = made.get("work")
    if not limits or not work or not made.get("ours"):
        return None
    peak = limits["gemm"].get(work["dtype"], limits["gemm"]["float32"])
    least = max(work["flops"] / peak, work["moved"] / limits["copy"])
    return least / (made["ours"] / 1e3) or None


def machine(threads: int = 1) -> dict:
    """What the numbers were measured on: no name of the host, no serial numbers."""
    versions = {}
    for name in PEERS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": ".".join(map(str, sys.version_info[:3])),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "versions": versions,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _least(step: Callable[[], object], rounds: int) -> float:
    step()
    return min(seconds(step) for _ in range(rounds))
