"""Claims on positions and windows that need no training: what a layer without positions can tell, and how far windows see.

Axes: B samples, T tokens, E channels; H rows, W columns of an image.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.core.errors import ShapeError
from regard.core.position import Rotary, Sinusoidal
from regard.nn.learned_position import Learned
from regard.nn.shifted_window import ShiftedWindowAttention
from regard.recipes.experiments.claim import Claim, decided
from regard.recipes.experiments.masking import layer_of
from regard.recipes.experiments.softmax_scores import normal


@torch.no_grad()
def order(seed: int) -> dict[str, float]:
    """Shuffle the tokens: how far the outputs are from the shuffled outputs, without positions and with two kinds."""
    x = normal(1, 24, 64, seed=seed + 1)
    shuffled = torch.randperm(24, generator=torch.Generator().manual_seed(seed))
    plain, turned, added = layer_of(seed), layer_of(seed, position=Rotary(16, pairing="half")), Sinusoidal(64)
    found = {}
    for name, run in (("none", plain), ("rotary", turned), ("sinusoidal", lambda y: plain(added(y)))):
        right = run(x)[:, shuffled]
        found[name] = float((run(x[:, shuffled]) - right).norm() / right.norm())
    return found


def beyond(seed: int) -> dict[str, float]:
    """Whether a table of 32 places and sines take 64 tokens."""
    x, took = normal(1, 64, 16, seed=seed), {}
    for name, run in (("learned", Learned(32, 16)), ("sinusoidal", Sinusoidal(16))):
        try:
            took[name] = float(run(x).isfinite().all())
        except (ShapeError, IndexError):
            took[name] = 0.0
    return took


def reach(seed: int) -> dict[str, float]:
    """How many of 28 x 28 pixels act on pixel (14, 14) after one and two layers of windows of 7, with and without the shift."""
    found = {}
    for name, shifts in (("one", (0,)), ("unshifted", (0, 0)), ("shifted", (0, 3)), ("four", (0, 3, 0, 3))):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = nn.Sequential(*(ShiftedWindowAttention(16, 2, window_size=7, shift=by) for by in shifts))
        image = normal(1, 16, 28, 28, seed=seed + 1).requires_grad_()
        (gradient,) = torch.autograd.grad(layers(image)[0, :, 14, 14].square().sum(), image)
        found[name] = float((gradient[0].abs().amax(0) > 0).sum())
    return found


CLAIMS = [
    Claim(
        "no-order-without-positions",
        ("Attention without positions cannot tell the order of the tokens", "没有位置的注意力无法区分词元的顺序"),
        ("our layer, width 64, 24 tokens, shuffled; outputs against the shuffled outputs, relative norm", "我们的层，宽 64，24 个词元，打乱；输出与打乱后的输出相比，相对范数"),
        ("under 1e-5 without positions, above 1 % with rotary and with sinusoidal ones", "无位置时小于 1e-5，rotary 与正弦位置时大于 1 %"),
        ("{none:.0e} without, {rotary:.0%} with rotary, {sinusoidal:.0%} with sinusoidal positions", "无位置 {none:.0e}，rotary {rotary:.0%}，正弦 {sinusoidal:.0%}"),
        order, lambda f: decided(f["none"].high < 1e-5 and min(f["rotary"].low, f["sinusoidal"].low) > 0.01), seeds=3,
    ),
    Claim(
        "learned-positions-end",
        ("A table of learned positions cannot take a longer sequence; sinusoidal positions can", "可学习的位置表不能处理更长的序列，正弦位置可以"),
        ("a table of 32 places and sinusoidal positions, 64 tokens", "32 个位置的表与正弦位置，64 个词元"),
        ("the table refuses, the sines give finite numbers", "表拒绝，正弦给出有限的数"),
        ("took 64 tokens: learned {learned:.0f}, sinusoidal {sinusoidal:.0f}; whether the longer sequence is also understood: positions-beyond-training", "能处理 64 个词元：可学习 {learned:.0f}，正弦 {sinusoidal:.0f}；是否也能理解见 positions-beyond-training"),
        beyond, lambda f: decided(f.mean("learned") == 0 and f.mean("sinusoidal") == 1),
    ),
    Claim(
        "window-shift",
        ("Windows see only themselves however many layers there are; the shift connects neighbours", "无论多少层，窗口只看到自己；移位把相邻窗口连接起来"),
        ("windows of 7 x 7 on 28 x 28 pixels, 16 channels; pixels with a gradient from output (14, 14), after one, two and four layers", "28 x 28 像素上的 7 x 7 窗口，16 通道；对输出 (14, 14) 有梯度的像素数，一、二、四层之后"),
        ("two layers without shift reach the 49 pixels of one, two with shift more", "无移位的两层与一层同为 49 个像素，有移位的两层更多"),
        ("{one:.0f} pixels after one layer, {unshifted:.0f} after two without shift, {shifted:.0f} after two and {four:.0f} after four with every other one shifted", "一层 {one:.0f} 个像素，无移位两层 {unshifted:.0f}，隔层移位的两层 {shifted:.0f}，四层 {four:.0f}"),
        reach, lambda f: decided(f.mean("one") == f.mean("unshifted") == 49 and f["shifted"].low > 49), seeds=3,
    ),
]  # fmt: skip
