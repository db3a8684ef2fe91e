"""Claims on cutting texts and padding them, counted on the default data of the recipes."""

from __future__ import annotations

import torch

from regard.recipes import words
from regard.recipes.data import defaults
from regard.recipes.experiments.claim import Claim, decided

CUT = 256


def lengths_of(texts: list[str]) -> torch.Tensor:
    """(N,): words and signs of each text; characters, for Chinese."""
    tokenizer = words.learn(texts[:2000], most=5000)
    return torch.tensor([len(found.ids) for found in tokenizer.encode_batch(texts, add_special_tokens=False)]).float()


def cut(seed: int) -> dict[str, float]:
    """Share of the texts that are longer than 256, and of all tokens that are lost."""
    reviews = defaults.chinese_reviews()
    found = {}
    sources = {
        "reviews": [one.text for one in reviews.train],
        "articles": [row["extract"] for row in defaults.leads()],
        "sentences": [one.text for one in defaults.movie_sentences().train],
    }
    for name, texts in sources.items():
        counts = lengths_of([text for text in texts if text.strip()])
        found |= {
            f"{name}_longer": 100 * float((counts > CUT).float().mean()),
            f"{name}_lost": 100 * float((counts - CUT).clamp(min=0).sum() / counts.sum()),
            f"{name}_mean": float(counts.mean()),
        }
    return found


def wasted(seed: int) -> dict[str, float]:
    """Share of padding in batches of 64 reviews: at random, and of about the same length."""
    counts = lengths_of([one.text for one in defaults.chinese_reviews().train]).clamp(max=CUT)
    drawn = counts[torch.randperm(len(counts), generator=torch.Generator().manual_seed(seed))]
    found = {"fixed": 100 * float(1 - counts.mean() / CUT)}
    for name, order in (("random", drawn), ("bucket", counts.sort().values)):
        batches = [batch for batch in order.split(64) if len(batch) == 64]
        area = sum(float(batch.max()) * 64 for batch in batches)
        found[name] = 100 * (1 - sum(float(batch.sum()) for batch in batches) / area)
    return found


CLAIMS = [
    Claim(
        "truncation-at-256",
        ("Cutting texts at 256 tokens loses little", "在 256 个词元处截断损失很小"),
        ("default data: 17,363 Chinese reviews (characters), 10,033 first sections of articles and 10,043 movie sentences (words and signs); the training part of the first and the last", "默认数据：17,363 条中文评论（字）、10,033 篇条目首段与 10,043 个影评句子（词与符号）；首尾两者取训练部分"),
        ("less than 2 % of the tokens are lost in each", "三者损失的词元均少于 2 %"),
        (
            "lost: {reviews_lost:.1f} % of the reviews' tokens ({reviews_longer:.1f} % of the texts are longer, mean {reviews_mean:.0f}), {articles_lost:.1f} % of the articles' ({articles_longer:.1f} %, mean {articles_mean:.0f}), {sentences_lost:.1f} % of the sentences' (mean {sentences_mean:.0f})",
            "损失：评论 {reviews_lost:.1f} %（{reviews_longer:.1f} % 的文本更长，平均 {reviews_mean:.0f}），条目 {articles_lost:.1f} %（{articles_longer:.1f} %，平均 {articles_mean:.0f}），句子 {sentences_lost:.1f} %（平均 {sentences_mean:.0f}）",
        ),
        cut, lambda f: decided(*(max(f.mean(f"{n}_lost") for n in names) < 2 for names in (("reviews", "articles", "sentences"), ("sentences",)))),
        needs=("tokenizers",),
    ),
    Claim(
        "padding-to-the-longest-wastes",
        ("Padding every text to a fixed length wastes most of the work; batches of equal length do not", "把每个文本填充到固定长度浪费大部分计算，按长度分批则不会"),
        ("Chinese reviews cut at 256, batches of 64: padded to 256, to the longest of a random batch, to the longest of a batch sorted by length", "中文评论截断到 256，每批 64：填充到 256、填充到随机批中的最长者、填充到按长度排序批中的最长者"),
        ("more than half is padding at the fixed length, less than 5 % in sorted batches", "固定长度时超过一半是填充，排序后少于 5 %"),
        ("padding: {fixed:.1f} % at the fixed length, {random:.1f} % in random batches, {bucket:.1f} % in sorted ones", "填充：固定长度 {fixed:.1f} %，随机批 {random:.1f} %，排序批 {bucket:.1f} %"),
        wasted, lambda f: decided(f.mean("fixed") > 50 and f.mean("bucket") < 5, f.mean("fixed") > 50), needs=("tokenizers",),
    ),
]  # fmt: skip
