"""What each gate adds to a network: parameters, FLOPs, and the time of one forward and backward, side by side.

One thread; the layers take turns; a time is the 25th percentile of the CPU time of that thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.nn.bam import BAM
from regard.nn.cbam import CBAM
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention
from regard.nn.spatial_channel_se import SpatialChannelSE
from regard.nn.squeeze_excitation import SqueezeExcitation

GATES: dict[str, Callable[[int], nn.Module]] = {
    "SqueezeExcitation": SqueezeExcitation,
    "EfficientChannelAttention": EfficientChannelAttention,
    "CBAM": CBAM,
    "BAM": BAM,
    "CoordinateAttention": CoordinateAttention,
    "SpatialChannelSE": SpatialChannelSE,
}


def gate_costs(channels: int = 256, side: int = 56, *, batch: int = 8, rounds: int = 15) -> list[dict]:
    """Measure every gate on one map size.

    Args:
        channels, side, batch: The map is (batch, channels, side, side).
        rounds: How often each is timed.

    Returns:
        One dict per gate: `name`, `parameters`, `flops` (per image: convolutions and matrix products, two per
        multiplication with addition), `forward` and `training` (forward and backward), in milliseconds per batch.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        image = torch.randn((batch, channels, side, side), generator=torch.Generator().manual_seed(0))
        gates = {name: make(channels) for name, make in GATES.items()}
        times = {name: ([], []) for name in gates}
        for turn in range(rounds + 1):  # the first round does not count
            for name, gate in gates.items():
                measured = _forward(gate, image), _training(gate, image)
                if turn:
                    for column, seconds in zip(times[name], measured):
                        column.append(seconds * 1e3)
        return [_row(name, gate, image, times[name], rounds) for name, gate in gates.items()]
    finally:
        torch.set_num_threads(threads)


def _row(name: str, gate: nn.Module, image: Tensor, times: tuple[list, list], rounds: int) -> dict:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        gate.eval()(image[:1])
    forward, training = (sorted(column)[rounds // 4] for column in times)
    parameters = sum(value.numel() for value in gate.parameters())
    return {
        "name": name,
        "parameters": parameters,
        "flops": counter.get_total_flops(),
        "forward": forward,
        "training": training,
    }


def _forward(gate: nn.Module, image: Tensor) -> float:
    gate.eval()
    start = time.thread_time()
    with torch.no_grad():
        gate(image)
    return time.thread_time() - start


def _training(gate: nn.Module, image: Tensor) -> float:
    gate.train()
    given = image.detach().requires_grad_()
    leaves = [given, *gate.parameters()]
    start = time.thread_time()
    torch.autograd.grad(gate(given).sum(), leaves)
    return time.thread_time() - start
