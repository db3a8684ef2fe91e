"""How long `regard check` takes for a typical module: from the command line in new processes, and called again in one that is warm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from torch import nn

from regard.bench.line import Line
from regard.bench.timing import amount, quartiles, seconds
from regard.checks.check import check
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.squeeze_excitation import SqueezeExcitation

MODULES: dict[str, Callable[[], nn.Module]] = {
    "torch.nn:MultiheadAttention": lambda: nn.MultiheadAttention(32, 4, batch_first=True),
    "regard.nn:MultiHeadAttention": lambda: MultiHeadAttention(32, 4),
    "regard.nn:SqueezeExcitation": lambda: SqueezeExcitation(32),
}


def lines(*, quick: bool = False) -> list[Line]:
    """Every line; `quick`: warm only, one module."""
    made = [_warm(name, build) for name, build in list(MODULES.items())[: 1 if quick else None]]
    return made if quick else [*(_cold(name) for name in MODULES), *made]


def _warm(name: str, build: Callable[[], nn.Module]) -> Line:
    what = f"regard.check on {name}, warm, CPU seconds"

    def run(rounds: int) -> list[dict]:
        check(build())
        times = quartiles([seconds(lambda: check(build())) for _ in range(min(rounds, 3))])
        return [amount(what, times[0], None, "s", quartiles={"ours": times})]

    return Line(what, "itself", run)


def _cold(name: str) -> Line:
    what = f"regard check {name}, from the command line, CPU seconds of all its processes"

    def run(_: int) -> list[dict]:
        before = _of_children()
        done = subprocess.run(
            [sys.executable, "-m", "regard", "check", name], capture_output=True, text=True, timeout=300
        )
        row = amount(what, _of_children() - before, None, "s")
        return [{**row, "counts": done.stdout.strip().splitlines()[-1:]}]

    return Line(what, "itself", run)


def _of_children() -> float:
    """CPU seconds of the processes that this one waited for."""
    used = os.times()
    return used.children_user + used.children_system
