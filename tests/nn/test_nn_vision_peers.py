"""Against released packages: the same numbers where they are right, and a named test for each place where they are not."""

import importlib.util

import pytest
import torch
from torch import nn

from regard.bench.timm_peer import load_timm
from regard.nn.bam import BAM
from regard.nn.cbam import CBAM
from regard.nn.coordinate_attention import CoordinateAttention
from regard.nn.efficient_channel import EfficientChannelAttention
from regard.nn.squeeze_excitation import SqueezeExcitation
from regard.nn.swin_block import SwinBlock
from regard.nn.swin_weights import swin_block_state

EXACT = 1e-12
needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm")
needs_fightingcv = pytest.mark.skipif(
    importlib.util.find_spec("fightingcv_attention") is None, reason="needs fightingcv-attention"
)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same_weights(ours, peer, order=None):
    """Draw the peer's state and give it to ours, entry by entry in `order` (None: the order of the peer)."""
    ours, peer = ours.double().eval(), peer.double().eval()
    with torch.no_grad():
        for seed, value in enumerate(value for value in peer.state_dict().values() if value.is_floating_point()):
            value.copy_(draw(*value.shape, seed=seed).abs() * 0.5)
    values = peer.state_dict()
    values = list(values.values()) if order is None else [values[name] for name in order]
    ours.load_state_dict(dict(zip(ours.state_dict(), values, strict=True)))
    return ours, peer


def timm_pairs():
    excite, cbam, coordinate, eca = load_timm("layers.squeeze_excite", "layers.cbam", "layers.coord_attn", "layers.eca")
    return {
        "squeeze-excitation": (SqueezeExcitation(32, min_channels=8), excite.SEModule(32)),
        "CBAM": (CBAM(32, norm=nn.BatchNorm2d, min_channels=2), cbam.CbamModule(32)),
        "coordinate attention": (CoordinateAttention(32, bias=False), coordinate.CoordAttn(32)),
        "efficient channel attention": (EfficientChannelAttention(32, kernel_size=3), eca.EcaModule(32)),
    }


@needs_timm
@pytest.mark.parametrize("size", [(1, 1), (5, 7), (8, 3)])
def test_gates_with_timms_weights_give_timms_numbers(size):
    for name, pair in timm_pairs().items():
        ours, peer = same_weights(*pair)
        x = draw(2, 32, *size, seed=99)
        torch.testing.assert_close(ours(x), peer(x), rtol=0, atol=EXACT, msg=lambda text, name=name: f"{name}: {text}")


@needs_timm
@pytest.mark.parametrize("version", [1, 2])
def test_timm_rolls_before_it_pads_so_that_opposite_borders_meet_and_ours_do_not(version):
    one, two = load_timm("models.swin_transformer", "models.swin_transformer_v2")
    made = one.SwinTransformerBlock if version == 1 else two.SwinTransformerV2Block
    peer = made(8, (7, 7), num_heads=2, window_size=4, shift_size=2).double().eval()
    with torch.no_grad():
        for seed, value in enumerate(peer.parameters()):
            value.copy_(draw(*value.shape, seed=seed) * 0.3)
    ours = SwinBlock(8, 2, window_size=4, shift=2, version=version).double().eval()
    ours.load_state_dict(swin_block_state(peer.state_dict(), "timm", ours))
    still, moved = draw(1, 7, 7, 8), draw(1, 7, 7, 8)
    moved[0, 0] += draw(7, 8, seed=1)  # the first row
    with torch.no_grad():
        peer_change = (peer(moved) - peer(still)).abs().amax((0, 2, 3))
        still, moved = (x.permute(0, 3, 1, 2) for x in (still, moved))
        our_change = (ours(moved) - ours(still)).abs().amax((0, 1, 3))
    assert peer_change[6] > 1e-3  # timm: the last row follows the first
    assert our_change[6] == 0
    assert our_change[1] > 1e-3  # and ours: the row beside it does


@needs_timm
def test_timm_lets_padding_take_part_in_the_softmax_and_ours_has_none():
    (swin,) = load_timm("models.swin_transformer")
    peer = swin.SwinTransformerBlock(8, (6, 6), num_heads=2, window_size=4, shift_size=0).double().eval()
    with torch.no_grad():
        for seed, value in enumerate(peer.parameters()):
            value.copy_(draw(*value.shape, seed=seed) * 0.3)
    ours = SwinBlock(8, 2, window_size=4).double().eval()
    ours.load_state_dict(swin_block_state(peer.state_dict(), "timm", ours))
    x = draw(1, 6, 6, 8)
    with torch.no_grad():
        theirs, output = peer(x), ours(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        change = (theirs - output).abs().amax((0, 3))
        # the window in the upper left has no padding; the others have
        assert change[:4, :4].max() < EXACT
        assert change[4:].max() > 1e-3
        # what timm gives without padding: the same windows, cut out
        corner = ours(x[:, 4:, 4:].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    torch.testing.assert_close(output[:, 4:, 4:], corner, rtol=0, atol=EXACT)


@needs_fightingcv
def test_fightingcv_squeeze_excitation_of_few_channels_is_constant_and_ours_is_not():
    from fightingcv_attention.attention.SEAttention import SEAttention

    x = draw(1, 8, 5, 5)
    with pytest.warns(UserWarning, match="zero-element"):
        peer = SEAttention(8, reduction=16).double()
    gate = peer(x) / x
    torch.testing.assert_close(gate, torch.full_like(gate, 0.5))
    ours = SqueezeExcitation(8, reduction=16).double()
    assert (ours.gate(x) - ours.gate(draw(1, 8, 5, 5, seed=1))).abs().max() > 1e-4


@needs_fightingcv
def test_fightingcv_bam_runs_at_7_x_7_only_and_ours_at_every_size():
    from fightingcv_attention.attention.BAM import BAMBlock

    peer, ours = BAMBlock(16).double().eval(), BAM(16).double().eval()
    with pytest.raises(RuntimeError):
        peer(draw(1, 16, 9, 9))
    assert ours(draw(1, 16, 9, 9)).shape == (1, 16, 9, 9)
