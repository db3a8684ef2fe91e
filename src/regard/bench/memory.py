"""The memory that a step takes beyond what was there before: the high-water mark of this process, or of one of its own.

Linux only (it is read from /proc). Memory that the allocator kept from earlier steps is given back first, so that it counts again.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MARK = Path("/proc/self/clear_refs")  # writing 5 to it forgets the high-water mark
MEBI = 1 << 20


def extra(step: Callable[[], object]) -> float | None:
    """MiB above what was resident before, at the highest point of the step; None where the system does not tell."""
    if not can_measure():
        return None
    give_back()
    MARK.write_text("5")
    before = resident("VmRSS")
    kept = step()
    most = resident("VmHWM")
    del kept
    return max(0, most - before) / MEBI


def can_measure() -> bool:
    """Whether this system tells the high-water mark and lets it be reset."""
    try:
        MARK.write_text("5")
    except OSError:
        return False
    return True


def resident(name: str) -> int:
    """Bytes: `VmRSS` is resident now, `VmHWM` was the most since the mark was reset."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def give_back() -> None:
    """Let the allocator return what it keeps for later, where it has a call for that (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def in_own_process(code: str, *, timeout: float = 900, environment: dict[str, str] | None = None) -> dict:
    """Run code that prints one JSON object as its last line, in a new interpreter on one thread.

    Raises:
        RuntimeError: It failed; the last lines that it said.
    """
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2]), **(environment or {})}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=os.environ | settings
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-3:] or [
            f"ended with status {done.returncode}, as when memory runs out"
        ]
        raise RuntimeError("the process that was measured failed: " + " / ".join(said))
    return json.loads(done.stdout.splitlines()[-1])
