"""Measure what docs/long.md says and draw its picture: cost against length, where the curves cross, and how far estimates are off.

Run from the root of the repository, about two minutes: OMP_NUM_THREADS=1 python docs/make_long_numbers.py
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import torch
from matplotlib import pyplot as plt
from torch.nn.functional import normalize

from regard.bench import linear
from regard.bench.lengths import slope
from regard.bench.timing import forward, one_thread, seconds, training
from regard.core.attention import attention
from regard.core.favor import draw_directions, random_features
from regard.core.linear import full
from regard.core.lsh import draw_rotations, hashed_attention
from regard.nn import FavorAttention, LSHAttention
from regard.views.plots.against_length import cost_by_length

HERE = Path(__file__).parent / "pictures"
ROUNDS = 7
FULL = {
    "exact": linear.exact_full,
    "linear": linear.linear_full,
    "Performer, 256 features": linear.favor_full,
    "Reformer, 1 hash": partial(linear.hashed, rounds=1),
    "Reformer, 4 hashes": partial(linear.hashed, rounds=4),
}
CAUSAL = {
    "exact, causal": linear.exact_causal,
    "linear, causal": linear.linear_causal,
    "Performer, causal": linear.favor_causal,
}


def measure(ways: dict, step, lengths: tuple[int, ...]) -> list[dict]:
    """One curve per way; at each length the ways take turns, and the 25th percentile of each counts."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for tokens in lengths:
        steps = {name: step(make(tokens), *linear.inputs(tokens)) for name, make in ways.items()}
        found = {name: [] for name in ways}
        for number in range(ROUNDS + 1):
            for name, run in steps.items():
                taken = 1e3 * seconds(run)
                if number:  # the first round warms up
                    found[name].append(taken)
        for name, taken in found.items():
            times[name].append(sorted(taken)[ROUNDS // 4])
    return [{"name": n, "lengths": list(lengths), "ms": ms, "slope": slope(lengths, ms)} for n, ms in times.items()]


def crossing(exact: dict, other: dict) -> str:
    """From which length on the other is faster; between two measured lengths on logarithmic axes."""
    gap = [math.log(a / b) for a, b in zip(exact["ms"], other["ms"])]
    behind = [i for i, g in enumerate(gap) if g <= 0]
    if not behind:
        return f"below {exact['lengths'][0]:,}"
    last = behind[-1]
    if last + 1 == len(gap):
        return f"beyond {exact['lengths'][-1]:,}"
    share = gap[last] / (gap[last] - gap[last + 1])
    low, high = (math.log(exact["lengths"][i]) for i in (last, last + 1))
    return f"{round(math.exp(low + share * (high - low)), -1):,.0f}"


def tell(title: str, curves: list[dict]) -> None:
    """A table in Markdown: milliseconds, slope, and from where on it beats the first."""
    print(f"\n{title}\n")
    print("| | " + " | ".join(f"{n:,}" for n in curves[0]["lengths"]) + " | slope | faster than exact from |")
    print("|---" * (len(curves[0]["lengths"]) + 3) + "|")
    for curve in curves:
        cells = [curve["name"], *(f"{ms:.1f}" for ms in curve["ms"]), f"{curve['slope']:.2f}"]
        print("| " + " | ".join([*cells, "" if curve is curves[0] else crossing(curves[0], curve)]) + " |")


def performer_errors() -> None:
    """How far Performer is from softmax attention: 4 heads of 64 channels, 1,024 tokens, normal numbers."""
    counts = (64, 256, 1024)
    print("\n| size of queries and keys | mean of all values | " + " | ".join(f"{n:,} features" for n in counts) + " |")
    print("|---" * (len(counts) + 2) + "|")
    for size in (0.25, 0.5, 1.0, 2.0):
        query, key, value = linear.inputs(1024)
        exact = attention(query * size, key * size, value)
        found = [apart(value.mean(dim=2, keepdim=True), exact)]
        for count in counts:
            directions = draw_directions(count, 64, generator=torch.Generator().manual_seed(0))
            features = partial(random_features, directions=directions, scale=1 / 8)
            found.append(apart(full(query * size, key * size, value, features), exact))
        print("| " + " | ".join([f"{size:g}", *(f"{x:.2f}" for x in found)]) + " |")


def reformer_errors() -> None:
    """How far Reformer is from attention to all tokens with the same shared queries and keys, sizes as above."""
    rounds = (1, 4, 16)
    print("\n| tokens | mean of all values | " + " | ".join(f"{n} hash{'' if n == 1 else 'es'}" for n in rounds) + " |")
    print("|---" * (len(rounds) + 2) + "|")
    normal, _, value = linear.inputs(1024)
    generator = torch.Generator().manual_seed(5)
    cluster = torch.randint(0, 64, (1024,), generator=generator)
    near = torch.randn(1, 4, 64, 64, generator=generator)[:, :, cluster] + 0.1 * normal
    for name, shared in (
        ("normal numbers", normal),
        ("64 clusters, size 2", 2 * near),
        ("64 clusters, size 8", 8 * near),
    ):
        exact = attention(shared, normalize(shared, dim=-1), value, mask=~torch.eye(1024, dtype=torch.bool))
        found = [apart(value.mean(dim=2, keepdim=True), exact)]
        for count in rounds:
            rotations = draw_rotations(count, 64, 16, generator=torch.Generator().manual_seed(0))
            found.append(apart(hashed_attention(shared, value, rotations, bucket_size=64), exact))
        print("| " + " | ".join([name, *(f"{x:.2f}" for x in found)]) + " |")


def apart(estimate: torch.Tensor, exact: torch.Tensor) -> float:
    """|estimate - exact| / |exact|."""
    return float((estimate - exact).norm() / exact.norm())


def leaks() -> None:
    """The largest change of an earlier output when every later token is replaced, over the largest output."""
    x = torch.randn(1, 1024, 256, generator=torch.Generator().manual_seed(1))
    changed = x.clone()
    changed[:, 512:] = 3 * torch.randn(1, 512, 256, generator=torch.Generator().manual_seed(2))
    print()
    for name, layer in (
        ("Performer, causal", FavorAttention(256, 4, causal=True)),
        ("Reformer, causal", LSHAttention(256, 4, causal=True, num_buckets=16)),
    ):
        with torch.no_grad():
            before, after = layer.eval()(x)[:, :512], layer(changed)[:, :512]
        print(
            f"{name}: later tokens change earlier outputs by {float((after - before).abs().max() / before.abs().max()):.1e}"
        )


def main() -> None:
    torch.manual_seed(0)
    lengths = (128, 256, 512, 1024, 2048, 4096, 8192)
    with one_thread():
        every, causal = (measure(ways, forward, lengths) for ways in (FULL, CAUSAL))
        tell("Forward, ms", every)
        tell("Forward, causal, ms", causal)
        tell("Forward + backward, ms", measure(FULL, training, lengths[:-1]))
        tell("Forward + backward, causal, ms", measure(CAUSAL, training, lengths[:-1]))
        performer_errors()
        reformer_errors()
        leaks()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    cost_by_length(every, title="forward", ax=left)
    cost_by_length(causal, title="forward, causal", ax=right)
    figure.savefig(HERE / "long_crossover.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
