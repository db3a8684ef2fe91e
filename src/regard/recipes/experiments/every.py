"""All claims, in the order of the page. A new group is one file with CLAIMS and one line here."""

from __future__ import annotations

import importlib

from regard.core.errors import DataError
from regard.recipes.experiments.claim import Claim

GROUPS = {
    "softmax_scores": ("Scores and softmax", "分数与 softmax"),
    "masking": ("Masks and padding", "掩码与填充"),
    "heads_and_dropout": ("Heads and dropout", "头与 dropout"),
    "decoding": ("Decoding with a cache", "带缓存的解码"),
    "places": ("Positions and windows", "位置与窗口"),
    "gates": ("What gates cost", "门控的开销"),
    "real_model": ("A real model, MiniLM", "真实模型 MiniLM"),
    "text_lengths": ("Lengths of real texts", "真实文本的长度"),
    "lookup": ("Trained: small made-up tasks", "训练：人造小任务"),
    "sentences": ("Trained: movie sentences", "训练：影评句子"),
    "small_images": ("Trained: small images", "训练：小图像"),
    "long_runs": ("Long runs", "长时间训练"),
}
NOTES = {
    "sentences": (
        "The test part has about 1,000 sentences: one standard error of an accuracy is about 1.3 points, and all seeds share the sentences. "
        "Read differences under 2 points as hints.",
        "测试部分约 1,000 个句子：准确率的一个标准误约为 1.3 个百分点，且各种子使用相同的句子。小于 2 个百分点的差异只是迹象。",
    ),
    "small_images": (
        "The test part has 10,000 images: one standard error of an accuracy is about 0.4 points. The runs are short: a gate that pays off later is not seen.",
        "测试部分有 10,000 张图像：准确率的一个标准误约为 0.4 个百分点。训练很短：后期才见效的门在此看不到。",
    ),
    "long_runs": (
        "Whole recipes with their variants. They compare at equal steps, and do not say what happens once both sides have stopped improving.",
        "完整的配方及其变体。在相同步数下比较，并不说明双方都不再改进之后会怎样。",
    ),
}


def groups() -> dict[str, list[Claim]]:
    """The claims of each file, by its name."""
    return {name: importlib.import_module(f"regard.recipes.experiments.{name}").CLAIMS for name in GROUPS}


def claims() -> dict[str, Claim]:
    """By name."""
    return {claim.name: claim for group in groups().values() for claim in group}


def named(names: list[str], known: dict[str, Claim]) -> list[Claim]:
    """The claims of these names; `all`: every one.

    Raises:
        DataError: With the names that there are.
    """
    if "all" in names:
        return list(known.values())
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None or not names:
        asked = "which experiment?" if unknown is None else f"there is no experiment {unknown!r};"
        raise DataError(f"{asked} there are all, {', '.join(known)}")
    return [known[name] for name in names]
