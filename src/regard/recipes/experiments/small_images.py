"""Claims that need training, on Fashion-MNIST: what a gate gains and where, and in which order CBAM's two gates belong.

The network is that of `regard train vision`. What its own table of variants measured already is read from there, not trained again.
The test part has 10,000 images: one standard error of an accuracy of 80 % is 0.4 points.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import nn

from regard.nn.cbam import CBAM
from regard.nn.insert import insert, inserted_gates
from regard.nn.squeeze_excitation import SqueezeExcitation
from regard.recipes import vision
from regard.recipes.experiments import long_runs
from regard.recipes.experiments.claim import Claim, Found, equal_within, more_by
from regard.recipes.experiments.gates import Parallel, SpatialFirst
from regard.recipes.experiments.short_training import trained
from regard.recipes.job import Job, plan_of
from regard.recipes.resnet import SmallResNet

SHORT = vision.Settings(gate="none", width=16, limit=6000, batch=64, steps=120, flip=False)
DATA: list[str | None] = [None]  # the tests take the digits
TABLE = Path("docs/recipes/vision_gates.json")
TABLED = {
    "none": "none", "se": "SE, residual", "se_4": "SE, residual, reduction 4", "cbam": "CBAM, residual",
    "stages": "CBAM, after stages", "ca": "CA, residual", "window": "windows, after stages",
}  # fmt: skip
GATES: dict[str, Callable[[int], nn.Module]] = {
    "cbam": CBAM, "spatial": SpatialFirst, "parallel": Parallel, "small": partial(CBAM, kernel_size=3),
}  # fmt: skip
NEEDS = ("torchmetrics",)
COMMON = (
    "6,000 images of Fashion-MNIST, the small ResNet of regard train vision (width 16, three blocks), gates at the end of each residual branch, 120 steps of 64, equal steps; accuracy on 10,000 test images after the last step",
    "Fashion-MNIST 的 6,000 张图像，regard train vision 的小 ResNet（宽 16，三个块），门在每个残差分支末端，120 步，每步 64，步数相同；最后一步之后在 10,000 张测试图像上的准确率",
)


TABLED_PROTOCOL = (
    "regard train vision --compare on Fashion-MNIST: 12,000 images, 400 steps of 128, equal steps; accuracy on 10,000 test images; read from docs/recipes/vision_gates.json where it has the seed",
    "Fashion-MNIST 上的 regard train vision --compare：12,000 张图像，400 步，每步 128，步数相同；10,000 张测试图像上的准确率；若 docs/recipes/vision_gates.json 有该种子则从中读取",
)


@lru_cache(maxsize=1)
def prepared(seed: int, settings: vision.Settings, data: str | None) -> Job:
    """The images, read once for all variants."""
    return vision.prepare(settings, data, seed)


@lru_cache(maxsize=32)
def accuracy_with(seed: int, gate: str, settings: vision.Settings, data: str | None) -> float:
    """Test accuracy of one variant, in percent."""
    job = prepared(seed, settings, data)
    channels, height, width = job.about["shape"]
    torch.manual_seed(seed)
    model = SmallResNet(channels, len(job.about["classes"]), width=settings.width, stem_stride=settings.stem_stride)
    insert(model, GATES[gate], "residual", example=torch.zeros(1, channels, height, width))
    plan = plan_of(settings, seed)
    work = replace(job.work, model=model, evaluate=lambda model: {"accuracy": 0.0})  # the last step counts
    model, _ = trained(work, plan)
    with torch.no_grad():
        return job.test(model)["accuracy"]


def gains(seed: int) -> dict[str, float]:
    """The variants of `regard train vision --compare`: from its table if that has the seed, else trained."""
    if TABLE.is_file():
        table = json.loads(TABLE.read_text(encoding="utf-8"))
        scores = {row["name"]: row["scores"] for row in table["rows"]}
        if seed < table["seeds"] and set(TABLED.values()) <= set(scores):
            return {name: scores[variant][seed] for name, variant in TABLED.items()}
    return long_runs.variants("vision", seed, TABLED)


def orders(seed: int) -> dict[str, float]:
    """CBAM's two gates in three orders, and with a kernel of 3."""
    return {name: accuracy_with(seed, name, SHORT, DATA[0]) for name in ("cbam", "spatial", "parallel", "small")}


def frozen(seed: int) -> dict[str, float]:
    """A network trained without gates; then its head alone, or head and gates, for half as many steps."""
    job = prepared(seed, SHORT, DATA[0])
    channels, height, width = job.about["shape"]
    torch.manual_seed(seed)
    backbone = SmallResNet(channels, len(job.about["classes"]), width=SHORT.width, stem_stride=SHORT.stem_stride)
    plan = plan_of(SHORT, seed)
    again = replace(plan, steps=max(1, plan.steps // 2))
    blind = {"evaluate": lambda model: {"accuracy": 0.0}}
    backbone, _ = trained(replace(job.work, model=backbone, **blind), plan)
    with torch.no_grad():
        found = {"before": job.test(backbone)["accuracy"]}
    for name, gate in (
        ("head", None),
        ("cbam", partial(CBAM, zero_init=True)),
        ("se", partial(SqueezeExcitation, zero_init=True)),
    ):
        model = copy.deepcopy(backbone).requires_grad_(False)
        torch.manual_seed(seed)
        if gate is not None:
            insert(model, gate, "residual", example=torch.zeros(1, channels, height, width))
        for part in (model.head, *inserted_gates(model).values()):
            part.requires_grad_(True)
        model, _ = trained(replace(job.work, model=model, **blind), again)
        with torch.no_grad():
            found[name] = job.test(model)["accuracy"]
            opened = [value.abs().mean() for part, value in model.named_parameters() if part.endswith("blend")]
            found |= {f"{name}_opened": float(torch.stack(opened).mean())} if opened else {}
    return found


def _best_order(found: Found) -> str:
    other = max(("spatial", "parallel"), key=found.mean)
    return more_by(found, "cbam", other, 0.3)


CLAIMS = [
    Claim(
        "gates-gain",
        ("SE, CBAM, coordinate attention or windows make a network better", "SE、CBAM、坐标注意力或窗口使网络更好"), TABLED_PROTOCOL,
        ("the best of them at least 0.5 points above none on average and above it for every seed", "其中最好者平均比没有门至少高 0.5 个百分点，且每个种子都更高"),
        (
            "accuracy: none {none:.1f}, SE {se:.1f}, CBAM {cbam:.1f}, coordinate {ca:.1f}, windows after the stages {window:.1f} %",
            "准确率：无 {none:.1f}，SE {se:.1f}，CBAM {cbam:.1f}，坐标 {ca:.1f}，阶段之后的窗口 {window:.1f} %",
        ),
        gains, lambda f: more_by(f, max(("se", "cbam", "ca", "window"), key=f.mean), "none", 0.5), seeds=3,
        drawn={"none": "none", "SE": "se", "CBAM": "cbam", "coordinate": "ca", "windows": "window"},
    ),
    Claim(
        "reduction-16-is-enough",
        ("A reduction of 16 is as good as one of 4", "缩减率 16 与 4 一样好"), TABLED_PROTOCOL,
        ("the means are within 0.5 points", "平均值相差不超过 0.5 个百分点"),
        ("SE in the residual branch: {se:.1f} % with reduction 16, {se_4:.1f} % with 4", "残差分支中的 SE：缩减率 16 为 {se:.1f} %，4 为 {se_4:.1f} %"),
        gains, lambda f: equal_within(f, ["se", "se_4"], 0.5), seeds=3,
    ),
    Claim(
        "cbam-in-the-residual-branch",
        ("CBAM is better in the residual branch than after the stages", "CBAM 放在残差分支中优于阶段之后"), TABLED_PROTOCOL,
        ("residual at least 0.3 points above on average and above for every seed", "残差分支平均至少高 0.3 个百分点，且每个种子都更高"),
        ("accuracy {cbam:.1f} % in the residual branch, {stages:.1f} % after the stages", "准确率：残差分支 {cbam:.1f} %，阶段之后 {stages:.1f} %"),
        gains, lambda f: more_by(f, "cbam", "stages", 0.3), seeds=3,
    ),
    Claim(
        "cbam-order",
        ("In CBAM, channel then spatial is the best order", "在 CBAM 中，先通道后空间的顺序最好"), COMMON,
        ("channel first at least 0.3 points above the better of the two others on average and above it for every seed", "先通道平均比另外两种中较好者至少高 0.3 个百分点，且每个种子都更高"),
        (
            "accuracy: channel first {cbam:.1f}, spatial first {spatial:.1f}, parallel {parallel:.1f} %",
            "准确率：先通道 {cbam:.1f}，先空间 {spatial:.1f}，并行 {parallel:.1f} %",
        ),
        orders, _best_order, seeds=3, needs=NEEDS, drawn={"channel first": "cbam", "spatial first": "spatial", "parallel": "parallel"},
    ),
    Claim(
        "spatial-kernel-7",
        ("In CBAM's spatial gate, a kernel of 7 x 7 is better than 3 x 3", "CBAM 的空间门中，7 x 7 的核优于 3 x 3"), COMMON,
        ("7 x 7 at least 0.3 points above 3 x 3 on average and above it for every seed", "7 x 7 平均比 3 x 3 至少高 0.3 个百分点，且每个种子都更高"),
        ("accuracy: 7 x 7 {cbam:.1f} %, 3 x 3 {small:.1f} %", "准确率：7 x 7 {cbam:.1f} %，3 x 3 {small:.1f} %"),
        orders, lambda f: more_by(f, "cbam", "small", 0.3), seeds=3, needs=NEEDS,
    ),
    Claim(
        "gates-on-a-frozen-backbone",
        ("A gate put into a frozen network makes it better", "在冻结的网络中加入门能使其更好"),
        (
            COMMON[0] + "; first without gates, then 60 steps with everything frozen but the head, or head and gates that start as the identity (statistics of the norms go on in both)",
            COMMON[1] + "；先无门训练，再用 60 步只训练分类头，或分类头与从恒等开始的门，其余冻结（两者的归一化统计都继续更新）",
        ),
        ("the better gate at least 0.5 points above the head alone on average and above it for every seed", "较好的门平均比只训练分类头至少高 0.5 个百分点，且每个种子都更高"),
        (
            "accuracy {before:.1f} % before; {head:.1f} % with the head alone, {cbam:.1f} % with CBAM, {se:.1f} % with SE, whose gates opened by {cbam_opened:.2f} and {se_opened:.2f} (1: wholly)",
            "准确率：之前 {before:.1f} %；只训练分类头 {head:.1f} %，加 CBAM {cbam:.1f} %，加 SE {se:.1f} %，门打开的程度为 {cbam_opened:.2f} 与 {se_opened:.2f}（1 为完全打开）",
        ),
        frozen, lambda f: more_by(f, max(("cbam", "se"), key=f.mean), "head", 0.5), seeds=3, needs=NEEDS,
        drawn={"head alone": "head", "CBAM": "cbam", "SE": "se"},
    ),
]  # fmt: skip
