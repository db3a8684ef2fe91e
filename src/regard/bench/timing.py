"""Two ways to compute the same, in turn: the lower quartile of the CPU time of each, on one thread, as a row with a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

Step = Callable[[], Sequence[Tensor]]


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread, as it was afterwards: CPU times of several threads say nothing on a machine that others use."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def row(name: str, ours: Step, peer: Step, target: float, *, rounds: int, where: Tensor | None = None) -> dict:
    """Measure one comparison: one round that does not count, then `rounds` in which the two take turns.

    Args:
        where: bool, broadcastable to the outputs: the numbers that must agree; None for all.

    Returns:
        `name`, `ours` and `peer` (milliseconds), `ratio` (peer / ours: above 1, ours is faster), `target` (of the ratio),
        `verdict` ("pass" or "fall-short"), `difference` (largest, between the tensors that the two return).
    """
    apart = [(a.detach() - b.detach()).abs() for a, b in zip(ours(), peer(), strict=True)]
    difference = max(float((x if where is None else x * where).max()) for x in apart)
    times = [(seconds(ours), seconds(peer)) for _ in range(rounds)]
    fast, slow = (sorted(column)[rounds // 4] for column in zip(*times, strict=True))
    return verdict(name, fast * 1e3, slow * 1e3, slow / fast, target, difference)


def verdict(name: str, ours: float, peer: float, ratio: float, target: float, difference: float = 0.0) -> dict:
    """A row whose numbers were measured elsewhere."""
    made = {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "target": target}
    return {**made, "verdict": "pass" if ratio >= target else "fall-short", "difference": difference}


def seconds(step: Step) -> float:
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
