"""The vision layers against timm's: the same weights, the same numbers, how long each takes.

One thread; ours and the peer take turns; a time is the 25th percentile of the CPU time of that thread. Ratios carry over to
other machines better than times do, and not everywhere: how slow a mask of -100 is depends on how a processor handles
subnormal numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.bench.timm_peer import load_timm
from regard.nn.cbam import CBAM
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.squeeze_excitation import SqueezeExcitation
from regard.nn.swin_block import SwinBlock
from regard.nn.swin_weights import swin_block_state

ROUNDS = 15


@dataclass(frozen=True)
class Pair:
    """One comparison: two modules with the same weights, an input for each, and what ours should reach."""

    name: str
    ours: nn.Module
    peer: nn.Module
    ours_input: Tensor
    peer_input: Tensor
    backward: bool
    target: float


def rows(*, rounds: int = ROUNDS) -> list[dict]:
    """Measure every line.

    Returns:
        One dict per line: `name`, `ours` and `peer` (milliseconds), `ratio` (peer / ours: above 1, ours is faster),
        `target` (of the ratio), `verdict` ("pass" or "fall-short"), `difference` (largest, of the outputs).

    Raises:
        MissingExtraError: timm is not installed.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [measure(pair, rounds=rounds) for pair in pairs()]
    finally:
        torch.set_num_threads(threads)


def measure(pair: Pair, *, rounds: int = ROUNDS) -> dict:
    """One line: the two in turn, `rounds` times each after one round that does not count."""
    ours, peer = (
        _step(module, x, pair.backward) for module, x in ((pair.ours, pair.ours_input), (pair.peer, pair.peer_input))
    )
    difference = _difference(ours(), peer())
    times = [(_seconds(ours), _seconds(peer)) for _ in range(rounds)]
    fast, slow = (sorted(column)[rounds // 4] for column in zip(*times))
    ratio = slow / fast
    return {
        "name": pair.name,
        "ours": fast * 1e3,
        "peer": slow * 1e3,
        "ratio": ratio,
        "target": pair.target,
        "verdict": "pass" if ratio >= pair.target else "fall-short",
        "difference": difference,
    }


def pairs() -> Iterator[Pair]:
    """All comparisons. A target of 0.9 says: within 10 % of the peer."""
    yield from _windows()
    yield from _gates()


def _windows() -> Iterator[Pair]:
    (swin,) = load_timm("models.swin_transformer")
    for shift, forward, training in ((0, 0.9, 0.9), (3, 2.0, 2.3)):
        peer = swin.SwinTransformerBlock(192, (28, 28), num_heads=6, window_size=7, shift_size=shift)
        ours = SwinBlock(192, 6, window_size=7, shift=shift)
        ours.load_state_dict(swin_block_state(peer.state_dict(), "timm", ours))
        pixels = _draw(8, 28, 28, 192)
        kind = "shifted windows" if shift else "windows"
        attend, reference = _Tokens(ours.attention, ours.attention.attend), _Tokens(peer.attn, peer._attn)
        for backward, target in ((False, forward), (True, training)):
            step = "forward + backward" if backward else "forward"
            yield Pair(f"{kind}, 28 x 28 x 192, {step}", attend, reference, pixels, pixels, backward, target)


def _gates() -> Iterator[Pair]:
    excite, cbam, coordinate = load_timm("layers.squeeze_excite", "layers.cbam", "layers.coord_attn")
    channels = 256
    image = _draw(8, channels, 56, 56)
    last = image.to(memory_format=torch.channels_last)
    made = {
        "squeeze-excitation": (SqueezeExcitation(channels, min_channels=16), excite.SEModule(channels)),
        "CBAM": (CBAM(channels, norm=nn.BatchNorm2d), cbam.CbamModule(channels)),
        "coordinate attention": (
            CoordinateAttention(channels, reduction=16, bias=False),
            coordinate.CoordAttn(channels, se_factor=1.0),
        ),
    }
    for ours, peer in made.values():
        ours.load_state_dict(dict(zip(ours.state_dict(), peer.state_dict().values(), strict=True)))
    for name, order, backward, target in (
        ("squeeze-excitation", "contiguous", False, 0.9),
        ("squeeze-excitation", "contiguous", True, 0.9),
        ("squeeze-excitation", "channels last", False, 0.9),
        ("CBAM", "contiguous", False, 0.9),
        ("CBAM", "contiguous", True, 1.3),
        ("CBAM", "channels last", True, 1.3),
        ("coordinate attention", "contiguous", False, 0.9),
        ("coordinate attention", "channels last", False, 3.0),
        ("coordinate attention", "channels last", True, 1.3),
    ):
        x = last if order == "channels last" else image
        step = "forward + backward" if backward else "forward"
        ours, peer = made[name]
        yield Pair(f"{name}, {channels} x 56 x 56, {order}, {step}", ours, peer, x, x, backward, target)


class _Tokens(nn.Module):
    """The attention of a block as a module of its own: pixels (B, H, W, C) in and out."""

    def __init__(self, owner: nn.Module, attend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.owner = owner  # for its parameters
        self.attend = attend

    def forward(self, pixels: Tensor) -> Tensor:
        return self.attend(pixels)


def _step(module: nn.Module, x: Tensor, backward: bool) -> Callable[[], list[Tensor]]:
    """What is timed: a forward pass in eval mode, or a training step's forward and backward."""
    if not backward:

        def forward() -> list[Tensor]:
            module.eval()
            with torch.no_grad():
                return [module(x)]

        return forward
    given = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    leaves = [given, *module.parameters()]
    direction = torch.ones_like(x)

    def train() -> list[Tensor]:
        module.train()
        output = module(given)
        return [output.detach(), torch.autograd.grad(output, leaves, direction)[0]]

    return train


def _difference(ours: list[Tensor], peer: list[Tensor]) -> float:
    return max((first - second).abs().max().item() for first, second in zip(ours, peer))


def _seconds(step: Callable[[], object]) -> float:
    start = time.thread_time()
    step()
    return time.thread_time() - start


def _draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
