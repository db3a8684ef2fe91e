"""Our own modules go through the same door as everybody's: no error, no warning, and questions with their reason."""

from __future__ import annotations

import importlib
import pathlib
import sys

import pytest
import torch

import regard
from regard.checks.report import Report

sys.path.append(str(pathlib.Path(__file__).parents[1] / "nn"))
ours = importlib.import_module("our_modules")

MASK = {"mask": {"arg": "mask", "polarity": "keep", "dtype": "bool"}}
IMAGE = {"layout": "BCHW", "inputs": {"x": (2, 16, 6, 9)}}
VISION = {  # module:Class -> (constructor arguments, declaration)
    "squeeze_excitation:SqueezeExcitation": ({"channels": 16}, None),
    "efficient_channel:EfficientChannelAttention": ({"channels": 16}, None),
    "channel_attention:ChannelAttention": ({"channels": 16}, None),
    "spatial_attention:SpatialAttention": ({}, None),
    "cbam:CBAM": ({"channels": 16}, None),
    "bam:BAM": ({"channels": 16}, None),
    "coordinate_attention:CoordinateAttention": ({"channels": 16}, None),
    "spatial_channel_se:SpatialChannelSE": ({"channels": 16}, None),
    "window_attention:WindowAttention": ({"channels": 16, "num_heads": 2, "window_size": 4}, IMAGE),
    "shifted_window:ShiftedWindowAttention": (
        {"channels": 16, "num_heads": 2, "window_size": 4},
        {**IMAGE, "window": 4, "shift": 2},
    ),
    "grid_attention:GridAttention": ({"channels": 16, "num_heads": 2, "grid_size": 3}, {**IMAGE, "window": "grid"}),
    "neighborhood:NeighborhoodAttention2D": ({"channels": 16, "num_heads": 2, "kernel_size": 3}, IMAGE),
    "swin_block:SwinBlock": ({"channels": 16, "num_heads": 2, "window_size": 4, "shift": None}, IMAGE),
}
QUICK = (
    "attention causal",
    "cross-attention",
    "squeeze_excitation:SqueezeExcitation",
    "attention with dropout",
    "linear causal",
)

ASKED: dict[
    tuple[str, str], str
] = {}  # (name, rule) -> why it is asked; nothing of ours may be asked without a reason here
NOT_YET: dict[str, str] = {}  # name -> what the checker says wrongly, or cannot do, today


def instance(name: str):
    """A module, its weights drawn from a fixed seed, and what is declared of it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name in VISION:
            path, _, cls = name.partition(":")
            arguments, design = VISION[name]
            return getattr(importlib.import_module(f"regard.nn.{path}"), cls)(**arguments), design
        return {**ours.OUR_MODULES, **ours.CROSS_MODULES}[name](), MASK


def names(every) -> list:
    """Parameters: all but a few are slow; what is not right yet is expected to fail, and fails the suite once it is right."""
    marked = []
    for name in every:
        marks = [] if name in QUICK else [pytest.mark.slow]
        marks += [pytest.mark.xfail(reason=NOT_YET[name])] if name in NOT_YET else []
        marked.append(pytest.param(name, marks=marks))
    return marked


def said(report: Report) -> list[str]:
    return [f"{f.level} {f.rule} {f.name}: {f.message}" for f in report.findings]


@pytest.mark.parametrize("name", names([*ours.OUR_MODULES, *ours.CROSS_MODULES, *VISION]))
def test_ours_are_checked_and_have_no_error_no_warning_and_only_known_questions(name):
    module, design = instance(name)
    report = regard.check(module, design=design)
    assert report.status == "checked", report.reason
    assert not [s for f, s in zip(report.findings, said(report), strict=True) if f.level != "question"]
    assert {(name, f.rule) for f in report.findings} <= set(ASKED), said(report)
    assert report.counts["passed"] >= (6 if name in VISION else 20)


def test_the_rules_that_matter_most_are_exercised_on_our_attention():
    module, design = instance("attention causal")
    results = {o.rule: o.result for o in regard.check(module, design=design).outcomes}
    wanted = (
        "ATT101",
        "ATT102",
        "ATT104",
        "ATT105",
        "ATT201",
        "ATT301",
        "ATT303",
        "ATT304",
        "ATT305",
        "ATT401",
        "ATT402",
    )
    assert {code: results[code] for code in wanted} == dict.fromkeys(wanted, "passed")
    more = (
        "ATT503",
        "ATT601",
        "ATT602",
        "ATT603",
        "ATT604",
        "ATT701",
        "ATT702",
        "ATT703",
        "ATT704",
        "ATT705",
        "ATT706",
    )
    assert {code: results[code] for code in more} == dict.fromkeys(more, "passed")


def test_our_mask_is_found_without_a_declaration():
    module, _ = instance("attention causal")
    assert regard.check(module, select=["ATT101"]).outcomes[0].result == "passed"


def test_our_cache_is_exercised_by_the_checker():
    module, _ = instance("attention causal")
    results = {o.rule: o for o in regard.check(module, select=["ATT2"]).outcomes}
    assert results["ATT203"].result == "passed", results["ATT203"].reason


def test_every_vision_module_of_the_package_is_on_the_list():
    folder = pathlib.Path(regard.__file__).parent / "nn"
    listed = {name.partition(":")[0] for name in VISION}
    vision = {f.stem for f in folder.glob("*.py") if "(B, C, H, W)" in f.read_text(encoding="utf-8")}
    parts = {
        "feature_map",
        "window_partition",
        "patch_merging",
        "position_2d",
        "insert",
        "insertion_places",
        "identity_start",
    }
    pools = {"attention_pool", "map_pooling", "window_bias", "swin_weights"}
    assert vision - listed - parts - pools == set()
