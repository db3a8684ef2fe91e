"""Cost against length: the time of one forward at several lengths, and the slope on logarithmic axes (1: linear, 2: quadratic)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench.claims import by_hand
from regard.bench.linear import linear_causal
from regard.bench.timing import Step, forward, normal, seconds
from regard.core.attention import attention
from regard.core.mask.band import causal, sliding_window
from regard.core.statistics import attention_statistics


@dataclass(frozen=True)
class Curve:
    """What is timed at which lengths: `make(tokens)` gives the step; 2 heads of 64."""

    name: str
    make: Callable[[int], Step]
    lengths: tuple[int, ...]


CURVES: dict[str, tuple[str, ...]] = {
    "attention": ("written by hand", "fused", "fused, causal"),
    "window": ("window of 256", "fused"),
    "linear": ("causal linear", "fused, causal"),
    "statistics": ("statistics", "full weights", "fused"),
}


def curves(suite: str, *, quick: bool = False, rounds: int = 3) -> Iterator[dict]:
    """Measure the curves of a suite.

    Yields:
        One dict per curve: `name`, `lengths`, `ms` (25th percentile at each length), `slope`.
    """
    known = known_curves(quick)
    for name in CURVES.get(suite, ()):
        yield measured(known[name], rounds)


def measured(curve: Curve, rounds: int) -> dict:
    """Time one curve."""
    times = []
    for tokens in curve.lengths:
        step = curve.make(tokens)
        step()
        times.append(1e3 * sorted(seconds(step) for _ in range(rounds))[rounds // 4])
    return {"name": curve.name, "lengths": list(curve.lengths), "ms": times, "slope": slope(curve.lengths, times)}


def slope(lengths: Sequence[int], times: Sequence[float]) -> float:
    """The exponent of a power law through the upper half of the points, by least squares of the logarithms."""
    half = max(2, (len(lengths) + 1) // 2)
    x, y = ([math.log(max(v, 1e-9)) for v in values[-half:]] for values in (lengths, times))
    middle_x, middle_y = sum(x) / half, sum(y) / half
    spread = sum((a - middle_x) ** 2 for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread


def known_curves(quick: bool) -> dict[str, Curve]:
    """Every curve by name."""
    part = 8 if quick else 1
    long = tuple(n // part for n in (512, 1024, 2048, 4096, 8192, 16_384, 32_768))
    window = sliding_window(256 // part, 256 // part)
    made = [
        Curve("written by hand", lambda n: _step(by_hand, n), long[:4]),
        Curve("fused", lambda n: _step(sdpa, n), long[:5]),
        Curve("fused, causal", lambda n: _step(lambda *x: attention(*x, mask=causal()), n), long[:5]),
        Curve("causal linear", lambda n: _step(linear_causal(n), n), long),
        Curve("window of 256", lambda n: _step(lambda *x: attention(*x, mask=window), n), long),
        Curve("statistics", lambda n: _step(lambda *x: attention_statistics(*x).received, n), long[:4]),
        Curve("full weights", lambda n: _step(_full, n), long[:4]),
    ]
    return {curve.name: curve for curve in made}


def _step(function: Callable[..., Tensor], tokens: int) -> Step:
    return forward(function, *(normal(1, 2, tokens, 64, seed=seed) for seed in range(3)))


def _full(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
    return weights @ value + (torch.xlogy(weights, weights).sum(-1) + weights.amax(-1) + weights.sum(-2))[..., None] * 0
