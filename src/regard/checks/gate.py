"""A gate that multiplies its input: what it depends on and where it is constant. Measured from out / x.

A signal (B, C, L) is an image of one row, where its text says that channels are gated.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks.case import Case

FLAT = 1e-6


@dataclass(frozen=True)
class Gate:
    """values: (B, C, H, W) = out / x.

    spatially_flat: one value per channel; channel_flat: one value per pixel; far: reacts to a pixel elsewhere;
    near: reacts to its own pixel.
    """

    values: Tensor
    x: Tensor
    spatially_flat: bool
    channel_flat: bool
    far: bool
    near: bool

    @property
    def pixelwise(self) -> bool:
        return self.near and not self.far


def run_image(case: Case, x: Tensor) -> Tensor:
    """(B, C, H, W) in and out."""
    b, c, h, w = x.shape
    tokens = x.permute(0, 2, 3, 1).reshape(b, h * w, c)
    line = case.call.sources[case.call.query].layout.axes == "BDL"
    out = case.run({case.call.query: tokens}, grids={case.call.query: (w,) if line else (h, w)})
    return out.reshape(b, h, w, -1).permute(0, 3, 1, 2)


def positive_image(case: Case, number: int = 0) -> Tensor:
    """(B, C, H, W), every value between 0.5 and 1.5, so that out / x is well defined."""
    source = case.call.sources[case.call.query]
    generator = torch.Generator().manual_seed(600 + number + case.seed)
    grid = source.grid if len(source.grid) == 2 else (1, *source.grid)
    return 0.5 + torch.rand(source.batch, source.width, *grid, generator=generator, dtype=torch.float64)


def read_gate(case: Case) -> Gate:
    """The gate of an image module whose output is zero wherever its input is; NotExercised for everything else."""
    if "gate" in case.facts:
        gate = case.facts["gate"]
        case.need(gate is not None, "the output is not the input times a gate")
        return gate
    case.facts["gate"] = None
    source = case.call.sources[case.call.query]
    case.need(
        not case.call.is_cross and source.layout.axes in ("BDHW", "BHWD", "BDL") and case.call.follows,
        "not one image stream",
    )
    signal = source.layout.axes == "BDL"
    case.need(not signal or gates_channels(case), "a signal, and nothing says that its channels are gated")
    case.need_determinism()
    x = positive_image(case)
    out = run_image(case, x)
    case.need(out.shape == x.shape, "the output has another shape than the input")
    case.need(_multiplies(case, x), "the output is not the input times a gate")
    values = out / x
    moved = x.clone()
    moved[0, :, 0, 0] = moved[0, :, 0, 0] * 1.7
    after = (run_image(case, moved) / moved)[0] - values[0]
    far = after.abs().clone()
    far[:, 0, 0] = 0
    case.facts["gate"] = Gate(
        values, x, spatially_flat=_flat(values, (2, 3)), channel_flat=_flat(values, (1,)) and x.shape[1] > 1,
        far=float(far.max()) > FLAT, near=float(after[:, 0, 0].abs().max()) > FLAT,
    )  # fmt: skip
    return case.facts["gate"]


def _multiplies(case: Case, x: Tensor) -> bool:
    holes = x.clone()
    generator = torch.Generator().manual_seed(8)
    at = torch.rand(x.shape, generator=generator) < 0.1
    holes[at] = 0.0
    out = run_image(case, holes)
    return bool(at.any()) and float(out[at].abs().max()) < 1e-12 and float(out[~at].abs().max()) > 1e-6


def _flat(values: Tensor, dims: tuple[int, ...]) -> bool:
    size = float(values.abs().max())
    return float((values - values.mean(dims, keepdim=True)).abs().max()) < FLAT * max(size, 1e-12)


SQUEEZES = r"squeeze|excit|(^|[^a-z])se_?(block|layer|module|net|unit)"
GATES_CHANNELS = (
    rf"{SQUEEZES}|\beca\b|channel[- ]?(wise )?(attention|gat(e|es|ing)\b)"
    r"|\b(one|a single) (weight|gate|value|factor|number) (per|for each|for every) (channel|feature map|electrode|sensor)\b"
)


def gates_channels(case: Case) -> bool:
    """Does the design or the text say so in as many words? "channels" alone may name an axis."""
    return case.design.gate == "channel" or case.evidence.says(GATES_CHANNELS) is not None


def squeezes(case: Case) -> bool:
    """Does the design or the text say that the gate is made of what was pooled?"""
    return case.design.gate == "channel" or case.evidence.says(SQUEEZES) is not None


CHANNEL_WORDS = r"squeeze|excit|\bse\b|^se|se_?(block|layer|module|net|unit)|channel|\beca\b"
ONE_MAP = r"\b(one|a single|the same) (\w+ )?(map|value|gate|weight|score|number)( (per|for each|for every|at each|at every)| of (each|every)) (pixel|position|location|place)\b(?![^.;]{0,20}channel)"
SPATIAL_WORDS = rf"spatial|pixel|per[- ]location|{ONE_MAP}"


def meant(case: Case) -> str | None:
    """ "channel" or "spatial" by the design, the name, the docstrings or unused pooling layers; None where nothing says."""
    if case.design.gate:
        return case.design.gate
    spatial, channel = case.evidence.says(SPATIAL_WORDS), case.evidence.says(CHANNEL_WORDS)
    name = case.evidence.name
    import re

    if re.search(r"spatial|pixel", name, re.IGNORECASE):
        return "spatial"
    if re.search(r"[cC]hannel|[sS]queeze|(^|[a-z_])SE|^Se[A-Z_]|eca|^ECA|^Eca[A-Z_]", name):
        return "channel"
    if spatial and not channel:
        return "spatial"
    return "channel" if channel else None
