"""Claims on scores and their softmax: the scale, the temperature, sums of rows, half precision, the fused kernel.

Axes: N queries, S keys, d channels of a head. Queries and keys are independent standard normal numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.core.attention import attention, attention_weights
from regard.core.mask.band import causal
from regard.core.mask.sequences import padding
from regard.core.reference import attention as exact
from regard.recipes.experiments.claim import CONFIRMED, Claim, Found, decided

WIDTHS = (16, 32, 64, 128, 256, 512)
KEYS = (10, 64, 512)


def normal(*shape: int, seed: int) -> Tensor:
    """Standard normal numbers of a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def scale_table(seed: int) -> dict[str, float]:
    """Deviation of the scores and mean of the largest weight, for each width, with and without 1 / sqrt(d)."""
    found = {}
    for width in WIDTHS:
        query, key = normal(1024, width, seed=1000 * seed + width), normal(max(KEYS), width, seed=1000 * seed + 777)
        for kind, scale in (("raw", 1.0), ("scaled", width**-0.5)):
            scores = query @ key.T * scale
            found[f"{kind}_deviation_{width}"] = float(scores.std())
            for keys in KEYS:
                found[f"{kind}_largest_{width}_{keys}"] = float(scores[:, :keys].softmax(-1).amax(-1).mean())
    return found


def _scale_verdict(found: Found) -> str:
    raw = [abs(found.mean(f"raw_deviation_{d}") / d**0.5 - 1) < 0.1 for d in WIDTHS]
    scaled = [abs(found.mean(f"scaled_deviation_{d}") - 1) < 0.1 for d in WIDTHS]
    grows = all(found.mean(f"raw_largest_{d}_64") > 2 * found.mean(f"scaled_largest_{d}_64") for d in WIDTHS if d >= 64)
    return decided(all(raw) and all(scaled) and grows, all(raw) and all(scaled))


def one_table_for_any_keys(seed: int) -> dict[str, float]:
    """How much the largest weight at d = 64 moves with the number of keys alone."""
    table = scale_table(seed)
    return {name: value for name, value in table.items() if "_largest_64_" in name or "_largest_512_" in name}


def _table_verdict(found: Found) -> str:
    moved = [found.mean(f"{kind}_largest_64_10") / found.mean(f"{kind}_largest_64_512") for kind in ("raw", "scaled")]
    return decided(max(moved) < 1.1)  # the claim is that one number per width says it


def gradients(seed: int) -> dict[str, float]:
    """The gradient that reaches the scores of a row of 64 keys, for random gradients of the weights: its norm, and how often it is nothing."""
    found = {}
    for kind, scale in (("raw", 1.0), ("scaled", 512**-0.5)):
        scores = (normal(2048, 512, seed=seed) @ normal(64, 512, seed=seed + 50).T * scale).requires_grad_()
        weights = scores.softmax(-1)
        (reached,) = torch.autograd.grad(weights, scores, normal(2048, 64, seed=seed + 99))
        norm = reached.norm(dim=-1)
        found |= {f"{kind}_median": float(norm.median()), f"{kind}_nothing": float((norm < 1e-3).float().mean())}
    return found


def temperature(seed: int) -> dict[str, float]:
    """Entropy over ln S and largest weight times S, with scores divided by sqrt(d) and by d."""
    found = {}
    for width in (64, 512):
        scores = normal(1024, width, seed=seed) @ normal(128, width, seed=seed + 50).T
        for kind, by in (("root", width**0.5), ("whole", float(width))):
            weights = (scores / by).softmax(-1)
            entropy = -(weights * weights.log()).sum(-1).mean() / math.log(128)
            found |= {
                f"{kind}_entropy_{width}": float(entropy),
                f"{kind}_times_{width}": float(128 * weights.amax(-1).mean()),
            }
    return found


def _temperature_verdict(found: Found) -> str:
    flat = all(found.mean(f"whole_entropy_{d}") > 0.995 for d in (64, 512))
    return decided(flat and all(found.mean(f"root_entropy_{d}") < 0.95 for d in (64, 512)), flat)


def self_test(seed: int) -> dict[str, float]:
    """Rows of weights under four masks: how far their sums are from 1; and gradients against finite differences in float64."""
    x = [normal(2, 4, 33, 16, seed=seed + i) for i in range(3)]
    masks = (
        None,
        causal(),
        padding(lengths=torch.tensor([33, 20])),
        causal() & padding(lengths=torch.tensor([33, 20])),
    )
    weights = [attention_weights(x[0], x[1], mask=mask) for mask in masks]
    apart = max(float((w.sum(-1) - 1).abs().max()) for w in weights)
    small = [normal(1, 2, 5, 4, seed=seed + i).double().requires_grad_() for i in range(3)]
    right = torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, mask=causal()), small, raise_exception=False)
    return {"sum": apart, "least": min(float(w.min()) for w in weights), "gradients": float(right)}


def half_precision(seed: int) -> dict[str, float]:
    """Hiding half of the keys in float16 with -1e20, three ways: as factor of a buffer, as masked_fill, and as a mask of ours."""
    query, key, value = (normal(1, 2, 8, 16, seed=seed + i).half() for i in range(3))
    keep = torch.arange(8) < 4
    scores = query @ key.transpose(-1, -2) / 4
    added = (scores + (1 - keep.half()) * torch.tensor(-1e20).half()).softmax(-1)
    try:
        scores.masked_fill(~keep, -1e20)
        refused = 0.0
    except RuntimeError:
        refused = 1.0
    ours = attention(query, key, value, mask=padding(keep[None]))
    wide = (scores.bfloat16() + (1 - keep.bfloat16()) * -1e20).softmax(-1)
    return {
        "not_a_number": float(added.isnan().float().mean()), "refused": refused,
        "ours": float(ours.isfinite().float().mean()), "bfloat16": float(wide.isfinite().float().mean()),
    }  # fmt: skip


def fused(seed: int) -> dict[str, float]:
    """The largest error against float64, of the fused kernel and of matmul, softmax, matmul, in float32."""
    x = [normal(2, 4, 256, 64, seed=seed + i) for i in range(3)]
    right = exact(*(t.double() for t in x))
    hand = (x[0] @ x[1].transpose(-1, -2) / 8).softmax(-1) @ x[2]
    return {"fused": float((sdpa(x[0], x[1], x[2]) - right).abs().max()), "hand": float((hand - right).abs().max())}


CLAIMS = [
    Claim(
        "scale-table",
        ("Scores spread as sqrt(d_k) and softmax saturates without 1 / sqrt(d_k)", "分数的标准差为 sqrt(d_k)，不除以 sqrt(d_k) 时 softmax 饱和"),
        (
            "1,024 queries and 10, 64 or 512 keys of standard normal numbers, d_k = 16, 32, 64, 128, 256, 512, float32",
            "1,024 个查询与 10、64、512 个键，均为标准正态数，d_k = 16 至 512，float32",
        ),
        (
            "every deviation within 10 % of sqrt(d_k), or of 1 with the scale, and from d_k = 64 on the largest of 64 weights more than twice that with the scale",
            "每个标准差与 sqrt(d_k)（缩放后与 1）相差不超过 10 %，且 d_k ≥ 64 时 64 个权重中的最大值超过缩放后的两倍",
        ),
        (
            "deviation {raw_deviation_16:.2f}, {raw_deviation_64:.2f}, {raw_deviation_256:.2f}, {raw_deviation_512:.2f} for d_k = 16, 64, 256, 512 and {scaled_deviation_512:.2f} with the scale; "
            "largest of 64 weights {raw_largest_16_64:.2f}, {raw_largest_64_64:.2f}, {raw_largest_256_64:.2f}, {raw_largest_512_64:.2f}, with the scale {scaled_largest_512_64:.3f}",
            "d_k = 16、64、256、512 的标准差为 {raw_deviation_16:.2f}、{raw_deviation_64:.2f}、{raw_deviation_256:.2f}、{raw_deviation_512:.2f}，缩放后 {scaled_deviation_512:.2f}；"
            "64 个权重中的最大值 {raw_largest_16_64:.2f}、{raw_largest_64_64:.2f}、{raw_largest_256_64:.2f}、{raw_largest_512_64:.2f}，缩放后 {scaled_largest_512_64:.3f}",
        ),
        scale_table, _scale_verdict, seeds=3,
    ),
    Claim(
        "largest-weight-by-width-alone",
        (
            "A table of d_k alone gives the largest weight (the tutorials' table names no number of keys; its values are not in this repository)",
            "只按 d_k 列表即可给出最大权重（教程的表没有给出键的个数，其数值不在本仓库中）",
        ),
        ("as scale-table, d_k = 64 and 512, with 10, 64 and 512 keys", "同 scale-table，d_k = 64 与 512，键数 10、64、512"),
        ("at d_k = 64 the largest weight with 10 keys is within 10 % of that with 512", "d_k = 64 时 10 个键与 512 个键的最大权重相差不超过 10 %"),
        (
            "d_k = 64: {raw_largest_64_10:.2f}, {raw_largest_64_64:.2f}, {raw_largest_64_512:.2f} of 10, 64, 512 keys; with the scale {scaled_largest_64_10:.3f}, {scaled_largest_64_64:.3f}, {scaled_largest_64_512:.3f}",
            "d_k = 64：10、64、512 个键时为 {raw_largest_64_10:.2f}、{raw_largest_64_64:.2f}、{raw_largest_64_512:.2f}；缩放后 {scaled_largest_64_10:.3f}、{scaled_largest_64_64:.3f}、{scaled_largest_64_512:.3f}",
        ),
        one_table_for_any_keys, _table_verdict, seeds=3,
    ),
    Claim(
        "unscaled-gradients-vanish",
        ("Without the scale, hardly any gradient reaches the scores", "不缩放时几乎没有梯度到达分数"),
        ("2,048 rows of 64 keys, d_k = 512; the norm of the scores' gradient for standard normal gradients of the weights", "2,048 行，每行 64 个键，d_k = 512；权重的梯度为标准正态数时分数梯度的范数"),
        ("the median norm without the scale is under a tenth of that with it", "不缩放时范数的中位数小于缩放后的十分之一"),
        (
            "median norm {raw_median:.4f} without, {scaled_median:.4f} with the scale; nothing (under 0.001) in {raw_nothing:.1%} and {scaled_nothing:.1%} of the rows",
            "范数中位数：不缩放 {raw_median:.4f}，缩放 {scaled_median:.4f}；几乎为零（小于 0.001）的行占 {raw_nothing:.1%} 与 {scaled_nothing:.1%}",
        ),
        gradients, lambda f: decided(f.mean("raw_median") < 0.1 * f.mean("scaled_median"), f.mean("raw_nothing") > 0.1), seeds=3,
    ),
    Claim(
        "temperature-d",
        ("Dividing by d instead of sqrt(d) gives uniform maps", "除以 d 而不是 sqrt(d) 会得到均匀的注意力图"),
        ("1,024 queries, 128 keys, d = 64 and 512, standard normal", "1,024 个查询，128 个键，d = 64 与 512，标准正态"),
        ("entropy above 99.5 % of ln 128 with d, and below 95 % with sqrt(d)", "除以 d 时熵高于 ln 128 的 99.5 %，除以 sqrt(d) 时低于 95 %"),
        (
            "entropy {whole_entropy_64:.2%} of the largest with d and {root_entropy_64:.2%} with sqrt(d) at d = 64; the largest weight is {whole_times_64:.2f} and {root_times_64:.1f} times an even share",
            "d = 64：除以 d 时熵为最大值的 {whole_entropy_64:.2%}，除以 sqrt(d) 时 {root_entropy_64:.2%}；最大权重是均匀份额的 {whole_times_64:.2f} 倍与 {root_times_64:.1f} 倍",
        ),
        temperature, _temperature_verdict, seeds=3,
    ),
    Claim(
        "rows-sum-to-one",
        ("Rows of weights sum to 1, and gradients pass a numerical test", "每行权重之和为 1，梯度通过数值检验"),
        ("our attention, 2 x 4 x 33 x 16, no mask, causal, padding and both; gradcheck in float64 with a causal mask", "我们的 attention，2 x 4 x 33 x 16，无掩码、因果、填充及两者；float64 因果掩码的 gradcheck"),
        ("sums within 1e-5 of 1, no weight below 0, and gradcheck passes", "行和与 1 相差不超过 1e-5，无负权重，gradcheck 通过"),
        ("sums within {sum:.1e} of 1, least weight {least:.1f}, gradcheck passed: {gradients:.0f}", "行和与 1 最多相差 {sum:.1e}，最小权重 {least:.1f}，gradcheck 通过：{gradients:.0f}"),
        self_test, lambda f: decided(f["sum"].high < 1e-5 and f["least"].low >= 0 and f["gradients"].low == 1), seeds=3,
    ),
    Claim(
        "half-1e20",
        ("-1e20 as mask value breaks in half precision", "半精度下用 -1e20 作掩码值会出错"),
        ("float16 scores 1 x 2 x 8 x 8, half of the keys hidden: (1 - keep) * -1e20 added, masked_fill with -1e20, our mask; the first also in bfloat16", "float16 分数 1 x 2 x 8 x 8，隐藏一半的键：加上 (1 - keep) * -1e20、masked_fill、我们的掩码；第一种也在 bfloat16 中"),
        ("the added form gives NaN weights", "相加的形式得到 NaN 权重"),
        (
            "added: {not_a_number:.0%} of the weights are NaN; masked_fill raises: {refused:.0f}; our mask: {ours:.0%} finite; added in bfloat16: {bfloat16:.0%} finite",
            "相加：{not_a_number:.0%} 的权重为 NaN；masked_fill 报错：{refused:.0f}；我们的掩码：{ours:.0%} 有限；bfloat16 相加：{bfloat16:.0%} 有限",
        ),
        half_precision, lambda f: decided(f.mean("not_a_number") > 0),
    ),
    Claim(
        "fused-is-as-exact",
        ("The fused kernel gives the same result as attention written by hand", "融合核的结果与手写注意力一致"),
        ("2 x 4 x 256 x 64 in float32; largest error against our open form in float64", "2 x 4 x 256 x 64，float32；与 float64 开放形式相比的最大误差"),
        ("the fused error is at most twice the error by hand, and under 1e-5", "融合核的误差不超过手写的两倍，且小于 1e-5"),
        ("largest error {fused:.1e} fused, {hand:.1e} by hand", "最大误差：融合 {fused:.1e}，手写 {hand:.1e}"),
        fused, lambda f: CONFIRMED if f.mean("fused") <= min(2 * f.mean("hand"), 1e-5) else decided(False), seeds=3,
    ),
]  # fmt: skip
