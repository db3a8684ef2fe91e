"""Claims that need training, on made-up tasks: looking a key up, and telling the token before.

Axes: B samples, T tokens, E channels. Samples are drawn anew at every step; the test is 1,000 samples of another seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.mask.band import causal
from regard.core.position import Rotary, Sinusoidal
from regard.nn.learned_position import Learned
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.transformer_block import TransformerBlock
from regard.recipes.experiments.claim import CONFIRMED, HERE, Claim, Found, decided, more_by
from regard.recipes.experiments.short_training import trained
from regard.recipes.plan import Batch, Plan, Work

KEYS, VALUES, ITEMS = 32, 16, 12


@dataclass(frozen=True)
class Size:
    """Of the runs; the tests take smaller ones."""

    width: int = 128
    batch: int = 64
    steps: int = 200
    length: int = 24
    tested: int = 1000


class Lookup(nn.Module):
    """(B, T) keys and (B, T) values, the last value unknown, to (B, VALUES): which value stood beside the last token's key."""

    def __init__(self, width: int, scale: float | None):
        super().__init__()
        self.keys, self.values = nn.Embedding(KEYS, width), nn.Embedding(VALUES + 1, width)
        self.norm, self.attention = nn.LayerNorm(width), MultiHeadAttention(width, 1, scale=scale)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VALUES))

    def forward(self, keys: Tensor, values: Tensor) -> Tensor:
        x = self.norm(self.keys(keys) + self.values(values))
        return self.head(self.attention(x[:, -1:], x)[:, 0])


def items(count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values (count, ITEMS + 1), and the right answers (count,)."""
    keys = torch.rand(count, KEYS, generator=generator).argsort(1)[:, :ITEMS]  # all different
    values = torch.randint(0, VALUES, (count, ITEMS), generator=generator)
    asked = torch.randint(0, ITEMS, (count, 1), generator=generator)
    unknown = torch.full((count, 1), VALUES)
    return torch.cat([keys, keys.gather(1, asked)], 1), torch.cat([values, unknown], 1), values.gather(1, asked)[:, 0]


@lru_cache(maxsize=3)  # two claims read it
def scales(seed: int, size: Size = Size()) -> dict[str, float]:
    """Accuracy and loss after the same steps with scores divided by sqrt(d), by nothing and by d."""
    test, found = items(size.tested, torch.Generator().manual_seed(10_000 + seed)), {}
    for name, scale in (("root", None), ("none", 1.0), ("whole", 1 / size.width)):
        torch.manual_seed(seed)
        model = Lookup(size.width, scale)
        work = Work(
            model, order=lambda step: torch.arange(size.batch), collate=lambda i: Batch(items(len(i)), len(i)),
            loss=lambda model, x: F.cross_entropy(model(x[0], x[1]), x[2], reduction="sum"),
            evaluate=lambda model: {"accuracy": accuracy(model(test[0], test[1]), test[2])}, score="accuracy",
        )  # fmt: skip
        model, losses = trained(work, Plan(size.steps, lr=3e-3, seed=seed))
        with torch.no_grad():
            found[f"{name}_accuracy"] = accuracy(model(test[0], test[1]), test[2])
        found[f"{name}_half"] = _mean(losses[size.steps // 2 - 10 : size.steps // 2 + 10])
    return found


def accuracy(scores: Tensor, right: Tensor) -> float:
    """In percent."""
    return 100 * float((scores.argmax(-1) == right).float().mean())


class Before(nn.Module):
    """(B, T) tokens to (B, T, 20): the token one place before, by one causal block."""

    def __init__(self, width: int, position: str, places: int):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        rotary = Rotary(width // 2, pairing="half") if position == "rotary" else None
        added: dict[str, Callable] = {
            "learned": lambda: Learned(places, width),
            "sinusoidal": lambda: Sinusoidal(width),
        }
        self.added = added[position]() if position in added else nn.Identity()
        self.block = TransformerBlock(width, MultiHeadAttention(width, 2, mask=causal(), position=rotary))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 20))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.block(self.added(self.embed(tokens))))


def beyond(seed: int, size: Size = Size(width=64, batch=32, steps=250)) -> dict[str, float]:
    """Accuracy on places inside and beyond the trained length, of three kinds of positions."""
    L, found = size.length, {}
    test = torch.randint(0, 20, (size.tested // 4, 2 * L), generator=torch.Generator().manual_seed(10_000 + seed))
    for name in ("sinusoidal", "learned", "rotary"):
        torch.manual_seed(seed)
        model = Before(size.width, name, 2 * L)

        def loss(model: nn.Module, x: tuple[Tensor, ...]) -> Tensor:
            return F.cross_entropy(model(x[0])[:, 1:].flatten(0, 1), x[0][:, :-1].flatten(), reduction="sum")

        work = Work(
            model, order=lambda step: torch.arange(size.batch),
            collate=lambda i: Batch((torch.randint(0, 20, (len(i), L)),), len(i) * (L - 1)),
            loss=loss, evaluate=lambda model: {"inside": accuracy(model(test[:, :L])[:, 1:], test[:, : L - 1])}, score="inside",
        )  # fmt: skip
        model, _ = trained(work, Plan(size.steps, lr=3e-3, seed=seed))
        with torch.no_grad():
            scores = model(test)
        found[f"{name}_inside"] = accuracy(scores[:, 1:L], test[:, : L - 1])
        found[f"{name}_beyond"] = accuracy(scores[:, L:], test[:, L - 1 : -1])
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / max(1, len(values))


def _beyond_verdict(found: Found) -> str:
    keeps = found.mean("sinusoidal_beyond") >= 0.9 * found.mean("sinusoidal_inside")
    breaks = found.mean("learned_beyond") < 0.5 * found.mean("learned_inside")
    return decided(keeps and breaks, breaks and more_by(found, "sinusoidal_beyond", "learned_beyond", 10) == CONFIRMED)


CLAIMS = [
    Claim(
        "unscaled-training-stalls",
        ("Without 1 / sqrt(d_k), training stalls", "不除以 sqrt(d_k) 时训练停滞"),
        (
            "one layer, one head of 128, looks up which of 16 values stood beside a key among 12; 200 steps of 64 samples, AdamW 3e-3, equal steps; 1,000 test samples",
            "一层，一个 128 宽的头，在 12 项中查找某键旁的值（16 种）；200 步，每步 64 个样本，AdamW 3e-3，步数相同；1,000 个测试样本",
        ),
        ("with the scale at least 10 points better on average, and better for every seed", "有缩放时平均至少好 10 个百分点，且每个种子都更好"),
        (
            "accuracy {root_accuracy:.1f} % with sqrt(d), {none_accuracy:.1f} % without; loss halfway {root_half:.2f} and {none_half:.2f}",
            "准确率：除以 sqrt(d) {root_accuracy:.1f} %，不除 {none_accuracy:.1f} %；半程损失 {root_half:.2f} 与 {none_half:.2f}",
        ),
        scales, lambda f: more_by(f, "root_accuracy", "none_accuracy", 10), seeds=3,
        drawn={"divided by sqrt(d)": "root_accuracy", "divided by 1": "none_accuracy", "divided by d": "whole_accuracy"},
    ),
    Claim(
        "temperature-d-slows-training",
        ("Dividing by d instead of sqrt(d) harms training", "除以 d 而不是 sqrt(d) 会损害训练"),
        ("as unscaled-training-stalls", "同 unscaled-training-stalls"),
        ("with sqrt(d) at least 5 points better on average, and better for every seed", "除以 sqrt(d) 时平均至少好 5 个百分点，且每个种子都更好"),
        (
            "accuracy {root_accuracy:.1f} % with sqrt(d), {whole_accuracy:.1f} % with d; loss halfway {root_half:.2f} and {whole_half:.2f}",
            "准确率：sqrt(d) {root_accuracy:.1f} %，d {whole_accuracy:.1f} %；半程损失 {root_half:.2f} 与 {whole_half:.2f}",
        ),
        scales, lambda f: more_by(f, "root_accuracy", "whole_accuracy", 5), seeds=3, source=HERE,
    ),
    Claim(
        "positions-beyond-training",
        ("Sinusoidal positions work at lengths beyond training; learned ones do not", "正弦位置能推广到训练长度之外，可学习位置不能"),
        (
            "one causal block of width 64 says the token before; trained on 24 tokens, 250 steps of 32, tested on 48 (the learned table has 48 places, 24 of them never trained)",
            "一个宽 64 的因果块预测前一个词元；在 24 个词元上训练 250 步（每步 32），在 48 上测试（可学习表有 48 个位置，其中 24 个从未训练）",
        ),
        ("sinusoidal keeps 90 % of its accuracy beyond, learned loses half; in part: only the second, and sinusoidal is 10 points above", "正弦在训练长度外保持 90 % 的准确率，可学习损失一半；部分：只有后者成立，且正弦高 10 个百分点"),
        (
            "inside and beyond: sinusoidal {sinusoidal_inside:.1f} and {sinusoidal_beyond:.1f} %, learned {learned_inside:.1f} and {learned_beyond:.1f} %, rotary {rotary_inside:.1f} and {rotary_beyond:.1f} % (chance: 5 %)",
            "长度之内与之外：正弦 {sinusoidal_inside:.1f} 与 {sinusoidal_beyond:.1f} %，可学习 {learned_inside:.1f} 与 {learned_beyond:.1f} %，rotary {rotary_inside:.1f} 与 {rotary_beyond:.1f} %（随机：5 %）",
        ),
        beyond, _beyond_verdict, seeds=3,
        drawn={"sinusoidal": "sinusoidal_beyond", "learned": "learned_beyond", "rotary": "rotary_beyond"}, unit="accuracy beyond the trained length, %",
    ),
]  # fmt: skip
