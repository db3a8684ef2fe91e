"""Claims on the width of a head and on dropout of the weights, measured without training.

Axes: H heads, T tokens, D channels of a head.
"""

from __future__ import annotations

import torch

from regard.core.attention import attention, attention_weights
from regard.recipes.experiments.claim import Claim, Found, decided
from regard.recipes.experiments.masking import layer_of
from regard.recipes.experiments.softmax_scores import normal

WIDTHS = (16, 32, 64, 128)
SHARES = (10, 30, 50)  # percent
DRAWS = 400


@torch.no_grad()
def ranks(seed: int) -> dict[str, float]:
    """Width 512 cut into heads of D: the rank of a head's scores over 256 tokens, and of its weights."""
    found, x = {}, normal(1, 256, 512, seed=seed + 1)
    for width in WIDTHS:
        layer = layer_of(seed, 512, 512 // width).double()
        q, k = (project(x.double()).view(256, -1, width)[:, 0] for project in (layer.q_proj, layer.k_proj))
        scores = q @ k.T / width**0.5
        values = torch.linalg.svdvals(scores)
        found[f"rank_{width}"] = float((values > values[0] * 1e-10).sum())
        weights = torch.linalg.svdvals(scores.softmax(-1))
        found[f"weights_{width}"] = float((weights > weights[0] * 1e-10).sum())
    return found


def pointing(seed: int) -> dict[str, float]:
    """How well queries and keys of D channels can be fitted so that each of 256 tokens attends to a random other one."""
    found, target = {}, torch.randperm(256, generator=torch.Generator().manual_seed(seed))
    for width in (4, 8, *WIDTHS):
        q = (normal(256, width, seed=seed + 1)).requires_grad_()
        k = (normal(256, width, seed=seed + 2)).requires_grad_()
        optimizer = torch.optim.Adam([q, k], lr=0.05)
        for _ in range(60):
            loss = torch.nn.functional.cross_entropy(q @ k.T / width**0.5, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weights = attention_weights(q.detach()[None, None], k.detach()[None, None])[0, 0]
        found[f"mass_{width}"] = float(weights[torch.arange(256), target].mean())
    return found


@torch.no_grad()
def expectation(seed: int) -> dict[str, float]:
    """Mean output over many draws of dropout, in standard errors of that mean; and how much a row's sum moves."""
    q, k, v = (normal(1, 2, 16, 8, seed=seed + i) for i in range(3))
    right, found = attention(q, k, v), {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for share in SHARES:
            drawn = torch.stack([attention(q, k, v, dropout=share / 100) for _ in range(DRAWS)])
            apart = (drawn.mean(0) - right) / (drawn.std(0) / DRAWS**0.5)
            ones = torch.stack([attention(q, k, torch.ones_like(v), dropout=share / 100)[..., 0] for _ in range(DRAWS)])
            found |= {f"errors_{share}": float(apart.square().mean().sqrt()), f"sum_{share}": float(ones.std())}
    return found


def _unbiased(found: Found) -> str:
    return decided(all(0.8 < found.mean(f"errors_{share}") < 1.2 for share in SHARES))


CLAIMS = [
    Claim(
        "head-width-rank",
        ("Narrow heads are a bottleneck: the scores of a head have rank d_k at most", "窄头是瓶颈：一个头的分数矩阵的秩至多为 d_k"),
        ("width 512, heads of 16, 32, 64, 128, 256 standard normal tokens, our layer freshly drawn, float64; singular values above 1e-10 of the largest", "宽 512，头宽 16、32、64、128，256 个标准正态词元，新初始化的层，float64；大于最大奇异值 1e-10 倍的奇异值"),
        ("the rank of the scores is d_k for each width", "每种宽度下分数的秩等于 d_k"),
        (
            "rank {rank_16:.0f}, {rank_32:.0f}, {rank_64:.0f}, {rank_128:.0f} for heads of 16, 32, 64, 128; after softmax {weights_16:.0f}, {weights_32:.0f}, {weights_64:.0f}, {weights_128:.0f}",
            "头宽 16、32、64、128 时秩为 {rank_16:.0f}、{rank_32:.0f}、{rank_64:.0f}、{rank_128:.0f}；softmax 之后为 {weights_16:.0f}、{weights_32:.0f}、{weights_64:.0f}、{weights_128:.0f}",
        ),
        ranks, lambda f: decided(all(f.mean(f"rank_{d}") == d for d in WIDTHS)), seeds=3,
    ),
    Claim(
        "narrow-heads-cannot-point",
        ("A head of 16 channels is too narrow to attend sharply; 64 or more are needed", "16 个通道的头太窄，无法集中注意；需要 64 个以上"),
        ("256 free queries and keys of 4 to 128 channels, fitted by 60 steps of Adam so that each query attends to one random key", "256 个自由的查询与键，4 至 128 个通道，用 Adam 拟合 60 步，使每个查询注意一个随机的键"),
        ("16 channels put less than 0.9 of the mass on the wanted key, 64 channels at least 0.9", "16 个通道时目标键上的权重低于 0.9，64 个通道时不低于 0.9"),
        (
            "mass on the wanted key {mass_4:.3f}, {mass_8:.3f}, {mass_16:.3f}, {mass_32:.3f}, {mass_64:.3f}, {mass_128:.3f} with 4, 8, 16, 32, 64, 128 channels",
            "4、8、16、32、64、128 个通道时目标键上的权重 {mass_4:.3f}、{mass_8:.3f}、{mass_16:.3f}、{mass_32:.3f}、{mass_64:.3f}、{mass_128:.3f}",
        ),
        pointing, lambda f: decided(f.mean("mass_16") < 0.9 <= f.mean("mass_64")), seeds=3,
    ),
    Claim(
        "attention-dropout-expectation",
        ("Dropout of the weights keeps the expected output, although rows no longer sum to 1", "对权重做 dropout 保持输出的期望，尽管各行之和不再为 1"),
        ("1 x 2 x 16 x 8; mean of 400 draws at 0.1, 0.3, 0.5, in standard errors of that mean", "1 x 2 x 16 x 8；0.1、0.3、0.5 各 400 次抽样的平均，以平均的标准误为单位"),
        ("the root mean square of those errors is within 0.8 and 1.2 for each share", "每个比例下误差的均方根在 0.8 与 1.2 之间"),
        (
            "{errors_10:.2f}, {errors_30:.2f}, {errors_50:.2f} standard errors at 0.1, 0.3, 0.5; the sum of a row deviates by {sum_10:.2f}, {sum_30:.2f}, {sum_50:.2f}",
            "0.1、0.3、0.5 时为 {errors_10:.2f}、{errors_30:.2f}、{errors_50:.2f} 个标准误；行和的标准差 {sum_10:.2f}、{sum_30:.2f}、{sum_50:.2f}",
        ),
        expectation, _unbiased, seeds=3,
    ),
]  # fmt: skip
