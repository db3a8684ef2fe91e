"""Make every picture in docs/pictures: one PNG per plot, from weights that are made here, in English, Chinese, Japanese and Korean.

Run from the root of the repository: python docs/make_pictures.py [name ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from regard.views import plots

HERE = Path(__file__).parent / "pictures"
ENGLISH = ["⟨s⟩", "The", "cat", "sat", "on", "the", "mat", "because", "the", "cat", "was", "tired", "."]
CHINESE = [*"我们看见注意力的权重", "，", *"但权重不等于解释", "。"]
JAPANESE = [*"注意の重みを読む", "。"]
KOREAN = ["주의", "가중치", "를", "읽는", "방법", "."]


def causal(count: int) -> np.ndarray:
    return np.tril(np.ones((count, count), bool))


def made_heads(count: int, heads: int, allowed: np.ndarray, seed: int = 0) -> np.ndarray:
    """(H, T, T) softmax weights: previous-token, self, sink, local and diffuse heads in turn."""
    random = np.random.default_rng(seed)
    at = np.arange(count)
    distance = at[:, None] - at
    patterns = [
        5.0 * (distance == 1),
        4.0 * (distance == 0),
        4.5 * (at == 0) * np.ones((count, 1)),
        -0.5 * np.abs(distance),
        0.0 * distance,
    ]
    logits = np.stack([patterns[h % len(patterns)] + random.normal(0, 0.9, (count, count)) for h in range(heads)])
    logits[:, :, 0] += 1.0
    logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def heatmap():
    few = CHINESE[:20]
    weights = made_heads(len(few), 1, causal(len(few)))[0]
    return plots.heatmap(weights, few, allowed=causal(len(few)), title="Layer 3, head 5: 前一个词 previous token")


def heatmap_long():
    count = 2048
    return plots.heatmap(
        made_heads(count, 4, causal(count))[3], ["词"] * count, allowed=causal(count), scale="log", pool="max"
    )


def head_grid():
    weights = made_heads(len(ENGLISH), 8, causal(len(ENGLISH)))
    return plots.head_grid(weights, ENGLISH, allowed=causal(len(ENGLISH)), columns=4, title="Layer 2, all heads")


def clustermap():
    every = np.ones((len(CHINESE), len(CHINESE)), bool)
    return plots.clustermap(made_heads(len(CHINESE), 4, every, 3)[3], CHINESE, title="Layer 3, head 3, clustered: 聚类")


def token_bars():
    weights = made_heads(len(CHINESE), 1, causal(len(CHINESE)))[0]
    return plots.token_bars(weights, CHINESE, query=("权", 2), top=10)


def head_similarity():
    every = np.ones((16, 16), bool)
    weights = made_heads(16, 24, every, 5)
    middle = (weights[:, None] + weights[None]) / 2
    entropy = lambda p: -(p * np.log2(p)).sum(-1)  # noqa: E731
    divergence = entropy(middle) - (entropy(weights)[:, None] + entropy(weights)[None]) / 2
    names = [f"L{n // 8} H{n % 8}" for n in range(24)]
    return plots.head_similarity(np.sqrt(np.maximum(divergence, 0)).mean(-1), heads=names, name="root JSD")


def overview():
    scores = np.random.default_rng(1).beta(1.2, 3, (12, 12))
    return plots.overview(scores, name="sink share", title="Share of attention on the first token")


def distance_profile():
    mass = np.random.default_rng(2).dirichlet([6, 5, 4, 3, 2, 1, 1, 1], 6)
    return plots.distance_profile(mass, heads=[f"head {n}" for n in range(6)], title="How far heads look")


def distance_profile_many():
    mass = np.random.default_rng(2).dirichlet(np.linspace(4, 0.5, 14), 144)
    return plots.distance_profile(mass, title="144 heads at 8,192 positions")


def entropy_bands():
    at = np.arange(32768)
    random = np.random.default_rng(3)
    entropy = 0.6 * np.log(at + 1) + random.normal(0, 0.4, (16, 1)) + random.normal(0, 0.3, (16, len(at)))
    return plots.entropy_bands(np.maximum(entropy, 0), title="Entropy over 32,768 positions, 16 heads")


def segment_flow():
    names = ["system 系统", "user 用户", "document 文档", "tool 工具", "answer 回答"]
    mass = np.tril(np.random.default_rng(4).dirichlet([2, 1, 3, 1, 1], 5))
    return plots.segment_flow(mass / mass.sum(1, keepdims=True), names, title="Layer 7, head 2: between segments")


def lift():
    weights = made_heads(len(JAPANESE), 4, causal(len(JAPANESE)), 7)[3]
    return plots.lift(weights, JAPANESE, allowed=causal(len(JAPANESE)), title="Lift over an even spread: 均等との比")


def curves():
    random = np.random.default_rng(5)
    rows = [
        {
            "step": 10 * s,
            "layer": layer,
            "entropy": list(3.2 * np.exp(-s / (8 + 4 * layer)) + 0.8 + random.normal(0, 0.05, 8)),
        }
        for s in range(40)
        for layer in range(6)
    ]
    return plots.curves(rows, "entropy", title="Entropy per layer while training")


def draw_mask():
    at = np.arange(len(ENGLISH))
    window = (at[:, None] - at >= 0) & (at[:, None] - at < 4)
    window[:, 0] = at >= 0
    return plots.draw_mask(window, ENGLISH, title="Window of 4 and one global token")


def korean_bars():
    weights = made_heads(len(KOREAN), 1, causal(len(KOREAN)))[0]
    return plots.token_bars(weights, KOREAN, query="읽는")


PICTURES = [
    heatmap, heatmap_long, head_grid, clustermap, token_bars, head_similarity, overview, distance_profile,
    distance_profile_many, entropy_bands, segment_flow, lift, curves, draw_mask, korean_bars,
]  # fmt: skip


def main(names: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    for picture in PICTURES:
        if not names or picture.__name__ in names:
            ax = picture()
            ax.figure.savefig(HERE / f"{picture.__name__}.png", dpi=100)
            plt.close(ax.figure)
            print(HERE / f"{picture.__name__}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
