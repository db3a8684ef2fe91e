"""Claims that need training, on 10,043 English sentences of movie reviews: heads, positions, dropout, padding, a wrong split of heads.

Axes: B sentences, T words, E channels. The model, data and test are those of `regard train text`; all variants train for the same steps
on the same batches. The test part has about 1,000 sentences: one standard error of an accuracy is about 1.3 points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.mask.sequences import padding
from regard.recipes import text, words
from regard.recipes.experiments.claim import Claim, Found, decided, equal_within, more_by
from regard.recipes.experiments.masking import WrongSplit
from regard.recipes.experiments.short_training import trained
from regard.recipes.job import Job, plan_of

SHORT = text.Settings(width=64, grams=1, vocabulary=8000, length=64, steps=200, evidence=0, pool="mean")
DATA: list[str | None] = [None]  # the tests put a small file in its place
NEEDS = ("tokenizers", "torchmetrics")
COMMON = (
    "regard train text on its default sentences, one layer of width 64, words only, 200 steps of 64, dropout 0.3, equal steps and batches; test accuracy after the last step",
    "regard train text 的默认句子，一层，宽 64，只用词，200 步，每步 64，dropout 0.3，步数与批次相同；最后一步之后的测试准确率",
)


@lru_cache(maxsize=1)
def prepared(seed: int, settings: text.Settings, data: str | None) -> Job:
    """The data, read once for all variants."""
    return text.prepare(settings, data, seed)


def job_of(seed: int, **common: Any) -> Job:
    """The job that all variants of a seed share."""
    return prepared(seed, replace(SHORT, **common), DATA[0])


def run_of(
    job: Job, seed: int, changed: Callable[[nn.Module], nn.Module] | None = None, **settings: Any
) -> tuple[nn.Module, list[float]]:
    """Train a variant: other settings, or the model changed after it was made."""
    torch.manual_seed(seed)
    about = {**job.about, "settings": {**job.about["settings"], **settings}}
    model: nn.Module = text.network(about)
    model = changed(model) if changed is not None else model
    return trained(replace(job.work, model=model), plan_of(text.Settings(**about["settings"]), seed))


@torch.no_grad()
def tested(job: Job, model: nn.Module) -> float:
    """Test accuracy, in percent."""
    return job.test(model)["accuracy"]


def by_settings(seed: int, variants: dict[str, dict[str, Any]], **common: Any) -> dict[str, float]:
    """Test accuracy of variants that differ in their settings."""
    job = job_of(seed, **common)
    return {name: tested(job, run_of(job, seed, **settings)[0]) for name, settings in variants.items()}


def positions(seed: int) -> dict[str, float]:
    """None, sinusoidal, learned, rotary."""
    return by_settings(seed, {name: {"position": name} for name in ("none", "sinusoidal", "learned", "rotary")})


def heads(seed: int) -> dict[str, float]:
    """1 and 8 heads."""
    return by_settings(seed, {f"heads_{n}": {"heads": n} for n in (1, 8)})


def dropout(seed: int) -> dict[str, float]:
    """Dropout of the weights only; all other dropout as it was."""
    job, found = job_of(seed), {}
    for percent in (0, 10, 50):

        def changed(model: nn.Module, share: float = percent / 100) -> nn.Module:
            for block in model.encoder.blocks:  # type: ignore[union-attr]
                block.mixer.dropout = share
            return model

        found[f"share_{percent}"] = tested(job, run_of(job, seed, changed)[0])
    return found


class Padded(nn.Module):
    """The classifier on sentences that are padded to 64 words, with padding hidden or not: (B, T) ids and lengths to scores.

    Args:
        inner: The classifier.
        hide: Whether attention is told of the padding.
    """

    def __init__(self, inner: nn.Module, hide: bool):
        super().__init__()
        self.inner, self.hide = inner, hide

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        ids = F.pad(ids, (0, SHORT.length - ids.shape[1]), value=words.PAD)
        x = self.inner.encoder(ids, mask=padding(lengths=lengths) if self.hide else None)  # type: ignore[operator]
        keep = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        mean = (x * keep[..., None]).sum(1) / lengths[:, None]
        return self.inner.head(self.inner.dropout(mean))  # type: ignore[operator]


def padded(seed: int) -> dict[str, float]:
    """Padding hidden, and not hidden from attention; the mean over words leaves it out in both."""
    job, found = job_of(seed), {}
    for name, hide in (("masked", True), ("seen", False)):
        model, _ = run_of(job, seed, lambda inner, hide=hide: Padded(inner, hide), heads=4)
        found[name] = tested(job, model)
    return found | {"seen_mass": _mass_on_padding(job, model)}  # of the last one


@torch.no_grad()
def _mass_on_padding(job: Job, model: nn.Module) -> float:
    """In percent, mean over heads and real words of a batch."""
    ids, lengths, _ = job.work.collate(job.work.order(0)).inputs
    ids = F.pad(ids, (0, SHORT.length - ids.shape[1]))
    encoder = model.inner.encoder  # type: ignore[union-attr]
    block = encoder.blocks[0]  # type: ignore[index,union-attr]
    weights = block.mixer.inspect(block.mixer_norm(encoder.embedded(ids))).weights  # type: ignore[operator,union-attr]
    real = torch.arange(SHORT.length) < lengths[:, None]
    mass = (weights * ~real[:, None, None]).sum(-1).mean(1)  # (B, T)
    return 100 * float(mass[real].mean())


def split(seed: int) -> dict[str, float]:
    """Heads split rightly and by view alone."""
    job, found = job_of(seed), {}

    def wrong(model: nn.Module) -> nn.Module:
        for block in model.encoder.blocks:  # type: ignore[union-attr]
            block.mixer = WrongSplit(block.mixer)
        return model

    for name, changed in (("right", None), ("wrong", wrong)):
        model, losses = run_of(job, seed, changed, position="sinusoidal")
        found |= {name: tested(job, model), f"{name}_loss": sum(losses[-20:]) / 20}
    return found


@lru_cache(maxsize=3)  # two claims read it
def wide(seed: int) -> dict[str, float]:
    """Width 512 with dropout 0.1 as 8 heads of 64 and as 4 of 128: accuracy, steps to the same loss, borders, likeness."""
    job, found, curves = (
        job_of(seed, width=512, dropout=0.1, vocabulary=2000, steps=60, batch=32, length=32, lr=0.001),
        {},
        {},
    )
    ids, lengths, _ = job.work.collate(job.work.order(0)).inputs
    for count in (8, 4):
        model, losses = run_of(job, seed, heads=count)
        curves[count] = [sum(losses[max(0, i - 9) : i + 1]) / min(10, i + 1) for i in range(len(losses))]
        found[f"heads_{count}"] = tested(job, model)
        found |= {f"{name}_{count}": value for name, value in borders(model, ids, lengths).items()}
    level = curves[4][-1]
    reached = next((i + 1 for i, loss in enumerate(curves[8]) if i >= 9 and loss <= level), len(curves[8]))
    return found | {"fewer_steps": 100 * (1 - reached / len(curves[4]))}


@torch.no_grad()
def borders(model: nn.Module, ids: Tensor, lengths: Tensor) -> dict[str, float]:
    """In percent, the mass of real words on the first and last word, an even share, and the mean cosine of two heads' maps."""
    encoder = model.encoder  # type: ignore[union-attr]
    block = encoder.blocks[0]  # type: ignore[index,union-attr]
    mass, even, alike = [], [], []
    for row, length in zip(ids, lengths.tolist()):
        x = block.mixer_norm(encoder.embedded(row[None, :length]))  # type: ignore[operator,union-attr]
        maps = block.mixer.inspect(x).weights[0]  # (H, T, T) # type: ignore[operator,union-attr]
        mass.append(float(maps[..., [0, -1]].sum(-1).mean()))
        even.append(min(1.0, 2 / length))
        flat = F.normalize(maps.flatten(1), dim=-1)
        one, other = torch.triu_indices(len(flat), len(flat), 1)
        alike.append(float((flat @ flat.T)[one, other].mean()))
    names = {"border": mass, "even": even}
    return {name: 100 * sum(values) / len(values) for name, values in names.items()} | {
        "alike": sum(alike) / len(alike)
    }


def _faster(found: Found) -> str:
    fewer = found["fewer_steps"]
    return decided(fewer.mean >= 25 and fewer.low > 0, fewer.mean >= 10 and fewer.low > 0)


CLAIMS = [
    Claim(
        "positions-in-classification",
        ("Positions improve classification", "位置信息能改善分类"), COMMON,
        ("the best kind of position at least 1 point above none on average and above it for every seed", "最好的位置方式平均比无位置至少高 1 个百分点，且每个种子都更高"),
        ("accuracy: none {none:.1f}, sinusoidal {sinusoidal:.1f}, learned {learned:.1f}, rotary {rotary:.1f} %", "准确率：无 {none:.1f}，正弦 {sinusoidal:.1f}，可学习 {learned:.1f}，rotary {rotary:.1f} %"),
        positions, lambda f: more_by(f, max(("sinusoidal", "learned", "rotary"), key=f.mean), "none", 1), seeds=3, needs=NEEDS,
        drawn={"none": "none", "sinusoidal": "sinusoidal", "learned": "learned", "rotary": "rotary"},
    ),
    Claim(
        "more-heads-are-better",
        ("More heads give better accuracy", "头越多准确率越高"), COMMON,
        ("8 heads at least 1 point above 1 head on average and above it for every seed", "8 头平均比 1 头至少高 1 个百分点，且每个种子都更高"),
        (
            "accuracy {heads_1:.1f} % with 1 head, {heads_8:.1f} % with 8; 2, 4 and no attention at all: regard train text --compare",
            "1 头的准确率 {heads_1:.1f} %，8 头 {heads_8:.1f} %；2 头、4 头与无注意力见 regard train text --compare",
        ),
        heads, lambda f: more_by(f, "heads_8", "heads_1", 1), seeds=3, needs=NEEDS,
        drawn={"1 head": "heads_1", "8 heads": "heads_8"},
    ),
    Claim(
        "attention-dropout-matters",
        ("The share of attention dropout, 0 to 0.5, decides the accuracy", "注意力 dropout 的比例（0 至 0.5）决定准确率"), COMMON,
        ("the means of the three shares differ by more than 2 points", "三种比例的平均值相差超过 2 个百分点"),
        (
            "accuracy {share_0:.1f}, {share_10:.1f}, {share_50:.1f} % at 0, 0.1, 0.5",
            "比例 0、0.1、0.5 时的准确率 {share_0:.1f}、{share_10:.1f}、{share_50:.1f} %",
        ),
        dropout, lambda f: decided(equal_within(f, [f"share_{p}" for p in (0, 10, 50)], 2) != "confirmed"), seeds=3, needs=NEEDS,
        drawn={f"dropout {p / 100:g}": f"share_{p}" for p in (0, 10, 50)},
    ),
    Claim(
        "padding-ignored-accuracy",
        ("Ignoring padding costs accuracy", "忽略填充会损失准确率"),
        (COMMON[0] + "; every sentence padded to 64 words", COMMON[1] + "；每个句子填充到 64 个词"),
        ("with the mask at least 1 point above attention without it on average and above it for every seed", "有掩码时平均比注意力无掩码至少高 1 个百分点，且每个种子都更高"),
        (
            "accuracy {masked:.1f} % masked, {seen:.1f} % when attention sees padding ({seen_mass:.0f} % of its mass lies there after training)",
            "准确率：有掩码 {masked:.1f} %，注意力看到填充 {seen:.1f} %（训练后 {seen_mass:.0f} % 的权重在其上）",
        ),
        padded, lambda f: more_by(f, "masked", "seen", 1), seeds=3, needs=NEEDS,
        drawn={"masked": "masked", "attention sees padding": "seen"},
    ),
    Claim(
        "wrong-head-split-trains",
        ("A wrong split of heads trains without an error and is two points worse", "错误的头拆分能正常训练，但低两个百分点"),
        (COMMON[0] + "; 4 heads, sinusoidal positions", COMMON[1] + "；4 头，正弦位置"),
        ("the right split at least 2 points above on average and above for every seed", "正确拆分平均至少高 2 个百分点，且每个种子都更高"),
        (
            "accuracy {right:.1f} % right, {wrong:.1f} % wrong; loss of the last 20 steps {right_loss:.3f} and {wrong_loss:.3f}",
            "准确率：正确 {right:.1f} %，错误 {wrong:.1f} %；最后 20 步的损失 {right_loss:.3f} 与 {wrong_loss:.3f}",
        ),
        split, lambda f: more_by(f, "right", "wrong", 2), seeds=3, needs=NEEDS, drawn={"right": "right", "wrong": "wrong"},
    ),
    Claim(
        "eight-heads-of-64-are-faster",
        ("At width 512 with dropout 0.1, 8 heads of 64 converge 30 % faster than 4 of 128", "宽 512、dropout 0.1 时，8 个 64 宽的头比 4 个 128 宽的头收敛快 30 %"),
        (
            "one layer of width 512 on the default sentences (2,000 words, at most 32), 60 steps of 32; the step at which 8 heads reach the loss (mean of 10 steps) that 4 heads end with",
            "默认句子（2,000 词，最长 32），一层，宽 512，60 步，每步 32；8 头达到 4 头最终损失（10 步平均）所用的步数",
        ),
        ("at least 25 % fewer steps on average and fewer for every seed; in part: 10 %", "平均至少少 25 % 的步数，且每个种子都更少；部分：10 %"),
        (
            "{fewer_steps:.0f} % fewer steps; accuracy {heads_8:.1f} % with 8, {heads_4:.1f} % with 4 heads",
            "少 {fewer_steps:.0f} % 的步数；准确率：8 头 {heads_8:.1f} %，4 头 {heads_4:.1f} %",
        ),
        wide, _faster, seeds=3, needs=NEEDS, drawn={"4 x 128": "heads_4", "8 x 64": "heads_8"},
    ),
    Claim(
        "heads-of-64-watch-the-border",
        ("With 4 heads of 128 some heads watch only the border, and heads are alike; with 8 of 64 they are not", "4 个 128 宽的头中有的只看边界且彼此相似，8 个 64 宽的头则不然"),
        (
            "the models of eight-heads-of-64-are-faster: mass on the first and last word of 32 sentences, and the mean cosine between two heads' maps",
            "eight-heads-of-64-are-faster 的模型：32 个句子首尾词上的权重，以及两个头的注意力图的平均余弦",
        ),
        ("4 heads put more than twice an even share on the border, and 8 heads less", "4 头在边界上的权重超过均匀份额的两倍，8 头更少"),
        (
            "on the border {border_4:.1f} % with 4 heads, {border_8:.1f} % with 8 (an even share: {even_4:.1f} %); mean cosine {alike_4:.2f} and {alike_8:.2f}",
            "边界上：4 头 {border_4:.1f} %，8 头 {border_8:.1f} %（均匀份额 {even_4:.1f} %）；平均余弦 {alike_4:.2f} 与 {alike_8:.2f}",
        ),
        wide, lambda f: decided(f.mean("border_4") > 2 * f.mean("even_4") > f.mean("border_8")), seeds=3, needs=NEEDS,
    ),
]  # fmt: skip
