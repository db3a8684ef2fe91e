"""The checker on our vision modules: no error; and on the versions that are copied around: the kind of their fault."""

import pytest
import torch
from torch import nn

import regard
from regard.nn.bam import BAM
from regard.nn.cbam import CBAM
from regard.nn.channel_attention import ChannelAttention
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention
from regard.nn.grid_attention import GridAttention
from regard.nn.neighborhood import NeighborhoodAttention2D
from regard.nn.shifted_window import ShiftedWindowAttention
from regard.nn.spatial_attention import SpatialAttention
from regard.nn.spatial_channel_se import SpatialChannelSE
from regard.nn.squeeze_excitation import SqueezeExcitation
from regard.nn.swin_block import SwinBlock
from regard.nn.window_attention import WindowAttention

OURS = {
    "squeeze-excitation": lambda: SqueezeExcitation(16),
    "squeeze-excitation, zero_init": lambda: SqueezeExcitation(16, zero_init=True),
    "efficient channel": lambda: EfficientChannelAttention(16),
    "channel": lambda: ChannelAttention(16),
    "spatial": SpatialAttention,
    "CBAM": lambda: CBAM(16),
    "BAM": lambda: BAM(16),
    "coordinate": lambda: CoordinateAttention(16),
    "spatial and channel": lambda: SpatialChannelSE(16),
    "windows": lambda: WindowAttention(16, 2, window_size=4),
    "shifted windows": lambda: ShiftedWindowAttention(16, 2, window_size=4),
    "shifted windows, version 2": lambda: ShiftedWindowAttention(16, 2, window_size=4, version=2),
    "grid": lambda: GridAttention(16, 2, grid_size=3),
    "neighbourhood": lambda: NeighborhoodAttention2D(16, 2, kernel_size=3),
    "Swin block": lambda: SwinBlock(16, 2, window_size=4, shift=None),
}


WINDOWS = ("windows", "shifted windows", "shifted windows, version 2", "grid", "neighbourhood", "Swin block")


def checked(module, **design):
    """With the layout said: a layer of Linear projections fits (B, H, W, C) as well, at the right sizes."""
    return regard.check(module, design=regard.Design(layout="BCHW", inputs={"x": (2, 16, 6, 9)}, **design))


@pytest.fixture(autouse=True)
def _drawn_once():
    """Four hidden units behind a ReLU can all be dead at one in some draws of the weights; this draw has living ones."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_ours_are_checked_and_have_no_error(name):
    report = checked(OURS[name]()) if name in WINDOWS else regard.check(OURS[name]())
    assert report.status == "checked"
    assert not [finding for finding in report.findings if finding.level in ("error", "warning")]


@pytest.mark.slow
def test_the_rule_on_opposite_borders_is_exercised_and_passed_by_shifted_windows():
    report = checked(OURS["shifted windows"](), window=4, shift=2)
    results = {outcome.name: outcome.result for outcome in report.outcomes}
    assert results["opposite_borders"] == "passed"


def test_a_channel_gate_is_checked_and_has_no_error():
    report = regard.check(SqueezeExcitation(16))
    assert report.status == "checked"
    assert not report.findings


class NoSqueeze(nn.Module):
    """Squeeze-excitation whose pooling is constructed and not called."""

    def __init__(self, channels=16):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, channels, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x)


class ZeroWidth(nn.Module):
    """Squeeze-excitation whose bottleneck is 16 // 32 = 0 channels wide, as an empty sum."""

    def __init__(self, channels=16, reduction=32):
        super().__init__()
        narrow = channels // reduction
        self.down = nn.Parameter(torch.randn(channels, narrow))
        self.up = nn.Parameter(torch.randn(narrow, channels))
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        squeezed = self.pool(x).flatten(1)
        return x * torch.sigmoid(torch.relu(squeezed @ self.down) @ self.up)[:, :, None, None]


class SpatialGateWithoutSigmoid(nn.Module):
    """The spatial gate of CBAM that lost its sigmoid."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x):
        return x * self.conv(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1))


class RollsBeforePadding(ShiftedWindowAttention):
    """Shifted windows as they are released: roll, then pad, and a mask for one size."""

    def attend(self, pixels):
        rolled = pixels.roll((-2, -2), (1, 2))
        H, W = rolled.shape[1:3]
        padded = nn.functional.pad(rolled, (0, 0, 0, -W % 4, 0, -H % 4))
        return WindowAttention.attend(self, padded)[:, :H, :W].roll((2, 2), (1, 2))

    @property
    def shift(self):
        return (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (NoSqueeze, "channel-no-squeeze"),
        (ZeroWidth, "gate-constant"),
        (SpatialGateWithoutSigmoid, "gate-unbounded"),
    ],
)
def test_the_planted_fault_is_named(make, kind):
    report = regard.check(make())
    assert kind in [finding.kind for finding in report.findings], report.findings


@pytest.mark.slow
def test_shifted_windows_that_roll_before_padding_are_named():
    report = checked(RollsBeforePadding(16, 2, window_size=4, shift=2), window=4, shift=2)
    assert "shift-mask" in [finding.kind for finding in report.findings], report.findings
