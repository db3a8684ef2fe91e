"""Claims that only longer training can decide: whole recipes with their variants, resumed where they stopped. Run with --long.

The folders of the runs are runs/experiments/TASK; what is trained there already is read, not trained again.
"""

from __future__ import annotations

from pathlib import Path

from regard.recipes.asked import Asked
from regard.recipes.compare import compare
from regard.recipes.experiments.claim import CONFIRMED, PARTLY, Claim, Found, more_by

FOLDER = Path("runs") / "experiments"
NEEDS = ("tokenizers", "torchmetrics")
QUESTION_STEPS = 350
QUESTIONS = ("others=1", "length=128", "width=64", "alone=0", "limit=3000", "batch=16", f"evaluate={QUESTION_STEPS}")


def variants(
    task: str, seed: int, names: dict[str, str], *, long: bool = False, steps: int = 0, settings: tuple[str, ...] = ()
) -> dict[str, float]:
    """The test number of variants of a recipe.

    Args:
        names: Number of the claim -> variant of the recipe.
        long: The long form of the recipe.
        steps: 0: as the recipe has it.
        settings: What all variants have otherwise, as NAME=VALUE.
    """
    folder = FOLDER / f"{task}{'-long' if long else ''}"
    asked = Asked(out=folder, seed=seed, long=long, steps=steps, watch=0, settings=settings)
    table = compare(task, asked, seeds=1, only=list(names.values()))
    scores = {row["name"]: row["scores"][0] for row in table["rows"]}
    return {name: scores[variant] for name, variant in names.items()}


def questions(seed: int) -> dict[str, float]:
    """F1 of the qa recipe: cross-attention against concatenation, told which words match or not, with segments or without."""
    names = {
        "concat": "concat, not told what matches", "no_segment": "concat, no segments, not told", "cross": "cross, not told what matches",
        "concat_told": "concat", "cross_told": "cross",
    }  # fmt: skip
    return variants("qa", seed, names, steps=QUESTION_STEPS, settings=QUESTIONS)


def tags(seed: int) -> dict[str, float]:
    """The tag recipe with and without positions."""
    return variants(
        "tag",
        seed,
        {"with_positions": "attention-CRF with convolution", "none": "attention-CRF with convolution, no positions"},
    )


def series(seed: int) -> dict[str, float]:
    """The series recipe (an error: less is better) with no, learned and rotary positions."""
    return variants(
        "series", seed, {"none": "patches, no positions", "learned": "patches, learned", "rotary": "patches, rotary"}
    )


def places(seed: int) -> dict[str, float]:
    """The vision recipe: CBAM in the residual branch, after the stages and in the stem, and SE with two reductions."""
    names = {
        "none": "none", "residual": "CBAM, residual", "stages": "CBAM, after stages", "stem": "CBAM, stem",
        "se_16": "SE, residual", "se_4": "SE, residual, reduction 4",
    }  # fmt: skip
    return variants("vision", seed, names, long=True)


def _questions(found: Found) -> str:
    much, little = (more_by(found, "cross", "concat", least) for least in (10, 2))
    return PARTLY if little == CONFIRMED != much else little


def _places(found: Found) -> str:
    return more_by(found, "residual", max(("stages", "stem"), key=found.mean), 0.3)


CLAIMS = [
    Claim(
        "concat-or-cross-for-questions",
        (
            "Cross-attention answers questions much better than one concatenated sequence (0.47 against 0.63)",
            "回答问题时，交叉注意力远优于拼接成一个序列（0.47 对 0.63）",
        ),
        (
            f"the qa recipe on 3,000 questions of its default data, each passage beside one other of its topic, cut to 128 tokens together; width 64, {QUESTION_STEPS} equal steps of 16, about equal parameters; F1 on test questions of articles that were not trained on. Both read with a convolution, concatenation with and without its segment embedding; the verdict is over models that are not told which words of passage and question match, the same models that are told stand beside it",
            f"qa 配方，默认数据的 3,000 个问题，每段与同一主题的另一段并列，合计截至 128 个词元；宽度 64，{QUESTION_STEPS} 步（步数相等），每步 16 个问题，参数大致相等；在未训练条目的测试问题上的 F1。两者都有卷积，拼接有无段嵌入；结论依据未被告知哪些词在问题与段落中相同的模型，被告知的模型列在旁边",
        ),
        (
            "cross at least 10 points of F1 above concatenation with segment embedding on average and above it for every seed; in part: at least 2",
            "交叉的 F1 平均比带段嵌入的拼接至少高 10 点，且每个种子都更高；部分：至少 2 点",
        ),
        (
            "F1: cross {cross:.1f}, concatenation {concat:.1f}, without segments {no_segment:.1f}; told what matches {cross_told:.1f} and {concat_told:.1f}",
            "F1：交叉 {cross:.1f}，拼接 {concat:.1f}，无段嵌入 {no_segment:.1f}；被告知相同的词时 {cross_told:.1f} 与 {concat_told:.1f}",
        ),
        questions, _questions, seeds=3, long=True, needs=NEEDS,
        drawn={"concat": "concat", "no segments": "no_segment", "cross": "cross", "concat, told": "concat_told", "cross, told": "cross_told"},
        unit="F1",
    ),
    Claim(
        "positions-in-tagging",
        ("Positions improve tagging", "位置信息能改善序列标注"),
        ("regard train tag --compare on its default data: attention-CRF with convolution, with rotary positions and without", "regard train tag --compare，默认数据：带卷积的 attention-CRF，有无 rotary 位置"),
        ("with positions at least 1 point above on average and above for every seed", "有位置时平均至少高 1 点，且每个种子都更高"),
        ("with positions {with_positions:.1f}, without {none:.1f}", "有位置 {with_positions:.1f}，无 {none:.1f}"),
        tags, lambda f: more_by(f, "with_positions", "none", 1), seeds=3, long=True, needs=(*NEEDS, "torchcrf", "seqeval"),
    ),
    Claim(
        "positions-in-series",
        ("Positions improve forecasts", "位置信息能改善时间序列预测"),
        ("regard train series --compare on its default data: patches with no, learned and rotary positions; mean squared error", "regard train series --compare，默认数据：patch，无位置、可学习、rotary；均方误差"),
        ("the better kind at least 0.01 below none on average and below it for every seed", "较好者平均比无位置至少低 0.01，且每个种子都更低"),
        ("error: none {none:.3f}, learned {learned:.3f}, rotary {rotary:.3f}", "误差：无 {none:.3f}，可学习 {learned:.3f}，rotary {rotary:.3f}"),
        series, lambda f: more_by(f, "none", min(("learned", "rotary"), key=f.mean), 0.01), seeds=3, long=True,
    ),
    Claim(
        "gates-in-the-residual-branch",
        ("A gate belongs at the end of the residual branch, not after the stages or in the stem", "门应放在残差分支末端，而不是阶段之后或 stem"),
        ("regard train vision --long --compare: CBAM in three places, SE with reduction 16 and 4; accuracy on the 10,000 test images", "regard train vision --long --compare：CBAM 的三个位置，SE 的缩减率 16 与 4；10,000 张测试图像上的准确率"),
        ("residual at least 0.3 points above the better of the others on average and above it for every seed", "残差分支平均比另外两处较好者至少高 0.3 点，且每个种子都更高"),
        (
            "accuracy: none {none:.1f}, residual {residual:.1f}, after stages {stages:.1f}, stem {stem:.1f}; SE {se_16:.1f} with reduction 16, {se_4:.1f} with 4",
            "准确率：无 {none:.1f}，残差分支 {residual:.1f}，阶段之后 {stages:.1f}，stem {stem:.1f}；SE 缩减率 16 为 {se_16:.1f}，4 为 {se_4:.1f}",
        ),
        places, _places, seeds=3, long=True, needs=("torchmetrics",),
    ),
]  # fmt: skip
