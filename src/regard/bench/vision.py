"""The vision layers against timm's: the same weights, the same numbers, how long each takes.

One thread; ours and the peer take turns; a time is the 25th percentile of CPU time. Ratios carry over to
other machines better than times do, and not everywhere: how slow a mask of -100 is depends on how a processor handles
subnormal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.bench.line import Line, Work, compare
from regard.bench.timing import Step, forward, normal, one_thread, row
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


def lines(*, quick: bool = False) -> list[Line]:
    """Every line, by kind of layer; `quick`: small images."""
    sizes = {"windows": (14, 64), "gates": (14, 128)} if quick else {"windows": (28, 192), "gates": (56, 256)}

    def line(what: str, made: Callable[[int, int], Iterator[Pair]]) -> Line:
        def run(rounds: int) -> list[dict]:
            with one_thread():
                return [measure(pair, rounds=rounds) for pair in made(*sizes[what])]

        return Line(what, "timm", run, ("timm",))

    return [line("windows", windows), line("gates", gates), mask_constant(64 if quick else 512)]


def mask_constant(tokens: int) -> Line:
    """What a mask of -100 costs on this processor: its weights are subnormal, which some compute up to 30 times slower."""

    def make() -> tuple[Step, Step]:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores, value = normal(8, 8, tokens, tokens), normal(8, 8, tokens, 64, seed=1)
        masked = [scores.masked_fill(future, constant) for constant in (-100.0, float("-inf"))]
        finite, infinite = (forward(lambda x: x.softmax(-1) @ value, x) for x in masked)
        return finite, infinite

    what = f"softmax and product under a mask of -100, 8 x 8 x {tokens} x {tokens}"
    return compare(what, "a mask of -inf", make, None, sense="at most")


def rows(*, rounds: int = ROUNDS) -> list[dict]:
    """Measure every line; `timing.row` says what a row holds.

    Raises:
        MissingExtraError: timm is not installed.
    """
    with one_thread():
        return [measure(pair, rounds=rounds) for pair in pairs()]


def measure(pair: Pair, *, rounds: int = ROUNDS) -> dict:
    """One row: the two in turn, `rounds` times each after those that do not count."""
    ours = _step(pair.ours, pair.ours_input, pair.backward)
    peer = _step(pair.peer, pair.peer_input, pair.backward)
    said = {}
    if not pair.backward and not isinstance(pair.ours, _Tokens):  # a gate reads its map once, and writes it once
        said["work"] = Work(moved=2 * pair.ours_input.nbytes)._asdict()
    return row(pair.name, ours, peer, pair.target, rounds=rounds, **said)


def pairs() -> Iterator[Pair]:
    """All comparisons. A target of 0.9 says: within 10 % of the peer."""
    yield from windows()
    yield from gates()


def windows(side: int = 28, channels: int = 192) -> Iterator[Pair]:
    """Swin's windows, with and without shift, on (8, side, side, channels)."""
    (swin,) = load_timm("models.swin_transformer")
    heads = channels // 32
    for shift, plain, training in ((0, 0.9, 0.9), (3, 2.0, 2.3)):
        peer = swin.SwinTransformerBlock(channels, (side, side), num_heads=heads, window_size=7, shift_size=shift)
        ours = SwinBlock(channels, heads, window_size=7, shift=shift)
        ours.load_state_dict(swin_block_state(peer.state_dict(), "timm", ours))
        pixels = normal(8, side, side, channels)
        kind = "shifted windows" if shift else "windows"
        attend, reference = _Tokens(ours.attention, ours.attention.attend), _Tokens(peer.attn, peer._attn)
        for backward, target in ((False, plain), (True, training)):
            step = "forward + backward" if backward else "forward"
            yield Pair(
                f"{kind}, {side} x {side} x {channels}, {step}", attend, reference, pixels, pixels, backward, target
            )


def gates(side: int = 56, channels: int = 256) -> Iterator[Pair]:
    """The gates on (8, channels, side, side), in both memory orders."""
    excite, cbam, coordinate = load_timm("layers.squeeze_excite", "layers.cbam", "layers.coord_attn")
    image = normal(8, channels, side, side)
    last = image.to(memory_format=torch.channels_last)
    made = {
        "squeeze-excitation": (SqueezeExcitation(channels, min_channels=channels // 16), excite.SEModule(channels)),
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
        yield Pair(f"{name}, {channels} x {side} x {side}, {order}, {step}", ours, peer, x, x, backward, target)


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
