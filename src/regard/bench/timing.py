"""Two ways to compute the same, in turn: the lower quartile of the CPU time of each, on one thread, as a row with a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import quantiles

import torch
from torch import Tensor

from regard.bench import memory

Step = Callable[[], Sequence[Tensor]]
SENSES = ("at least", "at most")  # how a ratio is held against its target


@contextmanager
def one_thread(threads: int = 1) -> Iterator[None]:
    """Torch on so few threads, as it was afterwards: CPU times of several threads say nothing on a machine that others use."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def row(
    name: str,
    ours: Step,
    peer: Step,
    target: float | None,
    *,
    rounds: int,
    where: Tensor | None = None,
    sense: str = "at least",
    **said: object,
) -> dict:
    """Measure one comparison: rounds that do not count, for outputs and memory, then `rounds` in which the two take turns.

    Args:
        where: bool, broadcastable to the outputs: the numbers that must agree; None for all.
        sense: "at least": the ratio is peer / ours, the times that ours is faster. "at most": it is ours / peer, what ours costs.
        **said: Kept in the row as it is, such as `against`, and `work` (see `limits.share`).

    Returns:
        `name`, `ours` and `peer` (milliseconds, 25th percentile), `quartiles` (of both), `ratio`, `target` (of the ratio), `sense`,
        `verdict` ("pass" or "fall-short"; "shown" without a target), `difference` (largest, between the tensors that the two return), `memory` (MiB beyond
        inputs at the high-water mark of each).
    """
    difference = apart(ours(), peer(), where)
    held = {"ours": memory.extra(ours), "peer": memory.extra(peer)}
    times = [(seconds(ours), seconds(peer)) for _ in range(rounds)]
    first, second = (quartiles([1e3 * t for t in column]) for column in zip(*times, strict=True))
    ratio = second[0] / first[0] if sense == "at least" else first[0] / second[0]
    spread = {"ours": first, "peer": second}
    made = verdict(name, first[0], second[0], ratio, target, difference, sense=sense)
    return {**made, "quartiles": spread, "memory": held, "rounds": rounds, **said}


def verdict(
    name: str,
    ours: float,
    peer: float,
    ratio: float,
    target: float | None,
    difference: float = 0.0,
    *,
    sense: str = "at least",
    **said: object,
) -> dict:
    """A row whose numbers were measured elsewhere."""
    assert sense in SENSES, sense
    made = {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "target": target, "sense": sense}
    if target is None:
        return {**made, "verdict": "shown", "difference": difference, **said}
    reached = ratio >= target if sense == "at least" else ratio <= target
    return {**made, "verdict": "pass" if reached else "fall-short", "difference": difference, **said}


def amount(name: str, value: float, allowed: float | None, unit: str, **said: object) -> dict:
    """A row of one measured amount that must not be larger than what is allowed, such as MiB; the ratio is between the two."""
    made = verdict(name, value, allowed or value, value / (allowed or value), allowed and 1.0, sense="at most")
    return {**made, "value": value, "allowed": allowed, "unit": unit, **said}


def apart(ours: Sequence[Tensor], peer: Sequence[Tensor], where: Tensor | None = None) -> float:
    """The largest difference between the tensors of the two."""
    found = [(a.detach() - b.detach()).abs() for a, b in zip(ours, peer, strict=True)]
    return max((float((x if where is None else x * where).max()) for x in found), default=0.0)


def quartiles(values: Sequence[float]) -> list[float]:
    """The 25th, 50th and 75th percentile."""
    return quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3


def seconds(step: Callable[[], object]) -> float:
    """CPU time of this process for one step."""
    start = time.process_time()
    step()
    return time.process_time() - start


def forward(function: Callable[..., Tensor], *tensors: Tensor) -> Step:
    """The step that computes the output, recording no gradient."""

    def step() -> list[Tensor]:
        with torch.no_grad():
            return [function(*tensors)]

    return step


def training(function: Callable[..., Tensor], *tensors: Tensor) -> Step:
    """The step that computes the output and the gradient of its sum of squares in every tensor."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]

    def step() -> list[Tensor]:
        output = function(*leaves)
        return [output, *torch.autograd.grad(output, leaves, output.detach())]

    return step


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same random numbers in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
