"""Claims on masks: swapped, forgotten, hiding a whole row; and heads split by a view that has the right shape.

Axes: B samples, H heads, T tokens, E channels, D channels of a head. Inputs are standard normal, the layer is freshly drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.core.attention import attention, attention_weights
from regard.core.mask.band import causal
from regard.core.mask.sequences import padding
from regard.nn.multi_head import MultiHeadAttention
from regard.recipes.experiments.claim import HERE, Claim, decided
from regard.recipes.experiments.softmax_scores import normal


def layer_of(seed: int, embed_dim: int = 64, heads: int = 4, **options) -> MultiHeadAttention:
    """A layer in eval mode, its weights drawn from a seed; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MultiHeadAttention(embed_dim, heads, **options).eval()


def swapped(seed: int) -> dict[str, float]:
    """Mass on what should be hidden, with the mask's meaning turned round: padding of half a row, and the future."""
    query, key = normal(2, 4, 16, 16, seed=seed), normal(2, 4, 16, 16, seed=seed + 1)
    keep = (torch.arange(16) < 8).expand(2, 16)
    wrong = attention_weights(query, key, mask=padding(~keep))
    right = attention_weights(query, key, mask=padding(keep))
    future = attention_weights(query, key, mask=~torch.ones(16, 16, dtype=torch.bool).tril())
    above = torch.ones(16, 16, dtype=torch.bool).triu(1)
    return {
        "padding": float(wrong[..., 8:].sum(-1).mean()), "right": float(right[..., 8:].sum(-1).mean()),
        "future": float((future * above).sum(-1)[..., :-1].mean()),
    }  # fmt: skip


@torch.no_grad()
def ignored(seed: int) -> dict[str, float]:
    """Mass on padding (zero vectors) when no mask hides it, and how far the output of real tokens moves."""
    layer, found = layer_of(seed), {}
    x = normal(4, 64, 64, seed=seed + 1)
    for share in (25, 50, 75):
        real = 64 - 64 * share // 100
        padded = x.clone()
        padded[:, real:] = 0
        output, weights = layer.inspect(padded)
        alone = layer(x[:, :real])
        masked = layer(padded, mask=padding(lengths=torch.full((4,), real)))[:, :real]
        found[f"mass_{share}"] = float(weights[:, :, :real, real:].sum(-1).mean())
        found[f"moved_{share}"] = float((output[:, :real] - alone).norm() / alone.norm())
        found[f"masked_{share}"] = float((masked - alone).abs().max())
    return found


def empty_row(seed: int) -> dict[str, float]:
    """A row that sees no key: by hand with -inf and with -1e9, by torch's kernel, by ours."""
    query, key, value = (normal(1, 2, 8, 16, seed=seed + i) for i in range(3))
    keep = torch.ones(8, 8, dtype=torch.bool)
    keep[3] = False
    scores = query @ key.transpose(-1, -2) / 4
    infinite = scores.masked_fill(~keep, -torch.inf).softmax(-1)
    finite = scores.masked_fill(~keep, -1e9).softmax(-1)
    return {
        "infinite": float(infinite[:, :, 3].isnan().float().mean()), "others": float(infinite[:, :, 4].isnan().float().mean()),
        "finite_mass": float(finite[:, :, 3].sum(-1).mean()), "finite_largest": float(finite[:, :, 3].amax()),
        "torch": float(sdpa(query, key, value, attn_mask=keep)[:, :, 3].isnan().float().mean()),
        "ours": float(attention(query, key, value, mask=keep)[:, :, 3].abs().max()),
    }  # fmt: skip


class WrongSplit(nn.Module):
    """Self-attention whose heads are split by `view(B, H, T, D)` instead of `view(B, T, H, D).transpose(1, 2)`; joined back the same way.

    Args:
        layer: Whose projections it uses.
    """

    def __init__(self, layer: MultiHeadAttention):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *, mask=None, positions: Tensor | None = None) -> Tensor:
        """(B, T, E) to the same; a padding mask hides keys by their number in the wrong split."""
        B, T, E = x.shape
        H = self.layer.num_heads
        q, k, v = (
            project(x).view(B, H, T, E // H) for project in (self.layer.q_proj, self.layer.k_proj, self.layer.v_proj)
        )
        return self.layer.out_proj(attention(q, k, v, mask=mask).reshape(B, T, E))


def wrong_split(seed: int) -> dict[str, float]:
    """Shape and output against the right split, and how many tokens reach the output of the first one."""
    layer = layer_of(seed)
    x = normal(1, 32, 64, seed=seed + 1).requires_grad_()
    right, wrong = layer(x), WrongSplit(layer)(x)
    reached = []
    for output in (right, wrong):
        (gradient,) = torch.autograd.grad(output[0, 0].square().sum(), x)
        reached.append(float((gradient[0].abs().amax(-1) > 0).float().mean()))
    return {
        "same_shape": float(right.shape == wrong.shape), "apart": float(((right - wrong).norm() / right.norm()).detach()),
        "right": reached[0], "wrong": reached[1],
    }  # fmt: skip


@torch.no_grad()
def causal_leak(seed: int) -> dict[str, float]:
    """With a causal mask: how far earlier outputs move when later tokens change, and later outputs when earlier tokens change."""
    layer = layer_of(seed)
    x, other, found = normal(1, 32, 64, seed=seed + 1), normal(1, 32, 64, seed=seed + 2), {}
    later, earlier = torch.cat([x[:, :8], other[:, 8:]], 1), torch.cat([other[:, :8], x[:, 8:]], 1)
    for name, run in (("right", layer), ("wrong", WrongSplit(layer))):
        output = run(x, mask=causal())
        found[f"{name}_leak"] = float((output - run(later, mask=causal()))[:, :8].abs().max())
        found[f"{name}_sees"] = float((output - run(earlier, mask=causal()))[:, 8:].abs().max())
    return found


CLAIMS = [
    Claim(
        "mask-swapped",
        ("A mask with its meaning turned round attends to exactly what it should hide", "掩码含义颠倒时，注意力恰好落在应隐藏的位置"),
        ("2 x 4 x 16 x 16; half of the keys are padding, or the future is to be hidden; mean mass there", "2 x 4 x 16 x 16；一半的键为填充，或应隐藏未来；该处的平均权重"),
        ("all mass lies on padding, and on the future (the last row, which has none, left out)", "全部权重落在填充上，以及未来上（没有未来的最后一行除外）"),
        ("mass on padding {padding:.2f} swapped, {right:.2f} right; on the future {future:.2f} swapped", "颠倒时填充上的权重 {padding:.2f}，正确时 {right:.2f}；颠倒时未来上的权重 {future:.2f}"),
        swapped, lambda f: decided(f["padding"].low > 0.999 and f["future"].low > 0.999 and f["right"].high == 0), seeds=3,
    ),
    Claim(
        "padding-ignored-mass",
        ("Without a padding mask, real tokens give much of their weight to padding, and their output changes", "没有填充掩码时，真实词元把大量权重给了填充，输出随之改变"),
        ("our layer, width 64, 4 heads, 64 tokens of which 25, 50, 75 % are zero vectors; against the real tokens alone", "我们的层，宽 64，4 头，64 个词元中 25、50、75 % 为零向量；与只有真实词元时相比"),
        ("at 50 % padding more than 10 % of the mass, and the output moves by more than 10 %; with the mask, by less than 1e-5", "填充 50 % 时权重超过 10 %，输出变化超过 10 %；有掩码时小于 1e-5"),
        (
            "mass on padding {mass_25:.1%}, {mass_50:.1%}, {mass_75:.1%} at 25, 50, 75 %; outputs move by {moved_25:.0%}, {moved_50:.0%}, {moved_75:.0%} of their norm; with the mask by at most {masked_75:.0e}",
            "填充 25、50、75 % 时其上权重 {mass_25:.1%}、{mass_50:.1%}、{mass_75:.1%}；输出变化为其范数的 {moved_25:.0%}、{moved_50:.0%}、{moved_75:.0%}；有掩码时最多 {masked_75:.0e}",
        ),
        ignored, lambda f: decided(f.mean("mass_50") > 0.1 and f.mean("moved_50") > 0.1 and f["masked_50"].high < 1e-5), seeds=3,
    ),
    Claim(
        "fully-masked-row",
        ("A row whose keys are all hidden becomes NaN", "所有键都被隐藏的行会变成 NaN"),
        ("1 x 2 x 8 x 16, row 3 sees nothing: masked_fill with -inf and with -1e9, torch's kernel, ours", "1 x 2 x 8 x 16，第 3 行看不到任何键：-inf 与 -1e9 的 masked_fill、torch 的核、我们的"),
        ("-inf by hand gives NaN in that row", "手写 -inf 时该行为 NaN"),
        (
            "-inf: {infinite:.0%} of the row NaN, {others:.0%} of the row below; -1e9: no NaN, but the row gives {finite_mass:.2f} to hidden keys (largest weight {finite_largest:.3f}); torch's kernel: {torch:.0%} NaN; ours: largest output {ours:.1f}",
            "-inf：该行 {infinite:.0%} 为 NaN，下一行 {others:.0%}；-1e9：没有 NaN，但该行把 {finite_mass:.2f} 的权重给了隐藏的键（最大 {finite_largest:.3f}）；torch 的核：{torch:.0%} NaN；我们的输出最大 {ours:.1f}",
        ),
        empty_row, lambda f: decided(f["infinite"].low == 1 and f["others"].high == 0), seeds=3,
    ),
    Claim(
        "wrong-head-split",
        ("Heads split by view alone give the right shape and a wrong result", "只用 view 拆分头：形状正确，结果错误"),
        ("width 64, 4 heads, 32 tokens, the same projections; view(B, H, T, D) against view(B, T, H, D).transpose(1, 2); gradient of the first output", "宽 64，4 头，32 个词元，相同投影；view(B, H, T, D) 与 view(B, T, H, D).transpose(1, 2)；第一个输出的梯度"),
        ("shapes equal, outputs more than 10 % apart, and less than half of the tokens reach the first output", "形状相同，输出相差超过 10 %，且能影响第一个输出的词元不足一半"),
        (
            "same shape: {same_shape:.0f}; outputs {apart:.0%} of their norm apart; {right:.0%} of the tokens reach the first output when right, {wrong:.0%} when wrong",
            "形状相同：{same_shape:.0f}；输出相差其范数的 {apart:.0%}；正确时 {right:.0%} 的词元影响第一个输出，错误时 {wrong:.0%}",
        ),
        wrong_split, lambda f: decided(f["same_shape"].low == 1 and f["apart"].low > 0.1 and f["wrong"].high < 0.5), seeds=3,
    ),
    Claim(
        "wrong-head-split-leaks",
        ("Heads split by view alone also leak the future through a causal mask", "只用 view 拆分头还会让未来穿过因果掩码泄漏"),
        ("as wrong-head-split with a causal mask; tokens 8 to 31 replaced, outputs 0 to 7 compared; then tokens 0 to 7 replaced, outputs 8 to 31 compared", "同 wrong-head-split，加因果掩码；替换第 8 至 31 个词元，比较第 0 至 7 个输出；再替换第 0 至 7 个词元，比较第 8 至 31 个输出"),
        ("outputs before the change move by more than 1e-4", "改动之前的输出变化超过 1e-4"),
        (
            "earlier outputs move by at most {wrong_leak:.1f}: nothing leaks. But later outputs move by {wrong_sees:.1f} (right split: {right_sees:.1f}): a query sees only the 8 tokens of its own block",
            "较早的输出最多变化 {wrong_leak:.1f}：没有泄漏。但较晚的输出变化 {wrong_sees:.1f}（正确拆分为 {right_sees:.1f}）：查询只看到自己所在块的 8 个词元",
        ),
        causal_leak, lambda f: decided(f["wrong_leak"].low > 1e-4), seeds=3, source=HERE,
    ),
]  # fmt: skip
