"""Claims on what channel and spatial gates cost: counted, not timed.

Axes: C channels, H rows, W columns of a map. FLOPs: convolutions and matrix products, two for each multiplication with addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.nn.cbam import CBAM
from regard.nn.channel_attention import ChannelAttention
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention
from regard.nn.spatial_attention import SpatialAttention
from regard.nn.squeeze_excitation import SqueezeExcitation
from regard.recipes.experiments.claim import Claim, Found, decided
from regard.recipes.experiments.softmax_scores import normal

GATES: dict[str, Callable[[int], nn.Module]] = {
    "se": SqueezeExcitation, "eca": EfficientChannelAttention, "cbam": CBAM, "ca": CoordinateAttention,
}  # fmt: skip


class SpatialFirst(nn.Module):
    """The spatial gate, then the channel gate of the result."""

    def __init__(self, channels: int, reduction: int = 16, kernel_size: int = 7):
        super().__init__()
        self.channel, self.spatial = ChannelAttention(channels, reduction=reduction), SpatialAttention(kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        return self.channel(self.spatial(x))


class Parallel(SpatialFirst):
    """Both gates of the same map, multiplied."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        return x * self.channel.gate(x) * self.spatial.gate(x)


def resnet50() -> Iterator[tuple[int, int, int, int, int, int]]:
    """(in, out, kernel, side of the output, groups, end) of each convolution of ResNet-50 at 224 x 224; `end`: last of a branch."""
    yield 3, 64, 7, 112, 1, 0
    channels = 64
    for blocks, narrow, side in ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)):
        for block in range(blocks):
            before = side * 2 if block == 0 and narrow > 64 else side  # the stride is in the 3 x 3 convolution
            yield channels, narrow, 1, before, 1, 0
            yield narrow, narrow, 3, side, 1, 0
            yield narrow, 4 * narrow, 1, side, 1, 1
            if block == 0:
                yield channels, 4 * narrow, 1, side, 1, 0
            channels = 4 * narrow


def size_of_resnet50() -> tuple[int, int]:
    """Parameters (25,557,032) and FLOPs of one image."""
    convolutions = [(a * b * k * k, 2 * b, 2 * a * b * k * k * side * side) for a, b, k, side, _, _ in resnet50()]
    parameters = sum(weights + norm for weights, norm, _ in convolutions) + 2048 * 1000 + 1000
    return parameters, sum(flops for _, _, flops in convolutions) + 2 * 2048 * 1000


def costs(seed: int) -> dict[str, float]:
    """A gate at the end of each of the 16 branches of ResNet-50: parameters and FLOPs added, in percent."""
    parameters, flops = size_of_resnet50()
    found = {}
    for name, make in GATES.items():
        added, worked = 0, 0
        for _, channels, _, side, _, end in resnet50():
            if end:
                gate = make(channels).eval().to("meta")
                with torch.no_grad(), FlopCounterMode(display=False) as counter:
                    gate(torch.empty(1, channels, side, side, device="meta"))
                added += sum(p.numel() for p in gate.parameters())
                worked += counter.get_total_flops()
        found |= {f"{name}_parameters": 100 * added / parameters, f"{name}_flops": 100 * worked / flops}
    return found


@torch.no_grad()
def orders(seed: int) -> dict[str, float]:
    """The three orders with the same weights on one map: parameters, FLOPs, outputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, made = CBAM(64).eval(), {"spatial": SpatialFirst(64).eval(), "parallel": Parallel(64).eval()}
    for module in made.values():
        module.load_state_dict(first.state_dict())
    x, found, outputs = normal(2, 64, 14, 14, seed=seed), {}, {}
    for name, module in {"channel": first, **made}.items():
        with FlopCounterMode(display=False) as counter:
            outputs[name] = module(x)
        found[f"{name}_parameters"] = sum(p.numel() for p in module.parameters())
        found[f"{name}_flops"] = counter.get_total_flops()
    for name in made:
        found[f"{name}_apart"] = float((outputs[name] - outputs["channel"]).norm() / outputs["channel"].norm())
    return found


def _equal_cost(found: Found) -> str:
    names = ("spatial", "parallel")
    return decided(
        all(
            found.mean(f"{n}_{what}") == found.mean(f"channel_{what}")
            for n in names
            for what in ("parameters", "flops")
        )
    )


CLAIMS = [
    Claim(
        "gates-cost-little",
        ("SE, CBAM and coordinate attention cost next to nothing", "SE、CBAM 与坐标注意力几乎没有开销"),
        ("our gates with their defaults at the end of each of the 16 branches of ResNet-50, 224 x 224; parameters and FLOPs counted, time not", "我们的门（默认设置）放在 ResNet-50 的 16 个分支末端，224 x 224；计数参数与 FLOPs，不计时间"),
        ("each adds less than 1 % of the FLOPs and less than 2 % of the parameters; in part: the FLOPs only", "每种增加的 FLOPs 少于 1 %，参数少于 2 %；部分：仅 FLOPs"),
        (
            "parameters: SE {se_parameters:+.2f} %, ECA {eca_parameters:+.4f} %, CBAM {cbam_parameters:+.2f} %, coordinate {ca_parameters:+.2f} %; FLOPs {se_flops:+.3f}, {eca_flops:+.4f}, {cbam_flops:+.3f}, {ca_flops:+.3f} %",
            "参数：SE {se_parameters:+.2f} %、ECA {eca_parameters:+.4f} %、CBAM {cbam_parameters:+.2f} %、坐标 {ca_parameters:+.2f} %；FLOPs {se_flops:+.3f}、{eca_flops:+.4f}、{cbam_flops:+.3f}、{ca_flops:+.3f} %",
        ),
        costs, lambda f: decided(*(all(f.mean(f"{n}_flops") < 1 and f.mean(f"{n}_parameters") < most for n in GATES) for most in (2, 1e9))),
    ),
    Claim(
        "cbam-order-costs-the-same",
        ("Channel then spatial, spatial then channel and both in parallel cost the same", "先通道后空间、先空间后通道、并行三种顺序开销相同"),
        ("64 channels, 14 x 14, the same weights in three orders; parameters, FLOPs, and how far the outputs are apart", "64 通道，14 x 14，三种顺序使用相同权重；参数、FLOPs 以及输出之差"),
        ("equal parameters and equal FLOPs (memory traffic is not counted)", "参数与 FLOPs 相等（不计内存读写）"),
        (
            "{channel_parameters:.0f} parameters and {channel_flops:.0f} FLOPs, {spatial_flops:.0f}, {parallel_flops:.0f}; outputs {spatial_apart:.1%} (spatial first) and {parallel_apart:.1%} (parallel) of the norm away",
            "参数 {channel_parameters:.0f}，FLOPs {channel_flops:.0f}、{spatial_flops:.0f}、{parallel_flops:.0f}；输出相差范数的 {spatial_apart:.1%}（先空间）与 {parallel_apart:.1%}（并行）",
        ),
        orders, _equal_cost, seeds=3,
    ),
]  # fmt: skip
