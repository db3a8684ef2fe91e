"""Swin blocks with the weights of timm and torchvision, against their stored outputs (tests/golden/make_swin_golden.py)."""

import pathlib

import numpy as np
import pytest
import torch

from regard.core.errors import ShapeError
from regard.nn.patch_merging import PatchMerging
from regard.nn.swin_block import SwinBlock
from regard.nn.swin_weights import merging_state, swin_block_state, under

AS_PEER = 1e-6  # the peers keep some tables in float32
SOURCES = [("timm", 1), ("timm", 2), ("torchvision", 1), ("torchvision", 2)]
every_source = pytest.mark.parametrize(("source", "version"), SOURCES)


@pytest.fixture(scope="module")
def golden():
    with np.load(pathlib.Path(__file__).parents[1] / "golden" / "swin_golden.npz") as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def block(version, shift, window=4):
    return SwinBlock(8, 2, window_size=window, shift=shift, version=version, mlp_ratio=2.0)


@every_source
@pytest.mark.parametrize("shift", [0, 2])
def test_a_block_with_their_weights_gives_their_output_where_windows_divide(golden, source, version, shift):
    name = f"{source}.{version}.{shift}."
    module = block(version, shift)
    module.load_state_dict(swin_block_state(under(f"{name}state.", golden), source, module))  # strict
    x = golden[f"{name}input"].double().permute(0, 3, 1, 2)
    with torch.no_grad():
        output = module.double().eval()(x).permute(0, 2, 3, 1)
    torch.testing.assert_close(output, golden[f"{name}output"], rtol=0, atol=AS_PEER)


@every_source
def test_merging_with_their_weights_gives_their_output_also_at_odd_sizes(golden, source, version):
    name = f"{source}.{version}.merging."
    module = PatchMerging(8, version=version)
    module.load_state_dict(merging_state(under(f"{name}state.", golden)))
    x = golden[f"{name}input"].double().permute(0, 3, 1, 2)
    with torch.no_grad():
        output = module.double()(x).permute(0, 2, 3, 1)
    assert output.shape == (1, 3, 4, 16)
    torch.testing.assert_close(output, golden[f"{name}output"], rtol=0, atol=AS_PEER)


def test_a_table_of_another_window_is_resized_on_loading(golden):
    module = block(1, 0, window=6)
    state = swin_block_state(under("timm.1.0.state.", golden), "timm", module)
    assert state["attention.position_bias.table"].shape == (121, 2)
    module.load_state_dict(state)


def test_computed_buffers_are_left_out(golden):
    given = {**under("timm.1.0.state.", golden), "attn_mask": torch.zeros(6, 16, 16)}
    assert set(swin_block_state(given, "timm", block(1, 0))) == set(block(1, 0).state_dict())


def test_a_foreign_name_is_refused_by_its_name(golden):
    with pytest.raises(ShapeError, match=r"'blocks.0.norm1.weight' is no parameter of a timm Swin block; .* prefix"):
        swin_block_state({"blocks.0.norm1.weight": torch.ones(8)}, "timm", block(1, 0))
    with pytest.raises(ShapeError, match="source is one of timm, torchvision, got 'hf'"):
        swin_block_state({}, "hf", block(1, 0))


def test_a_table_of_no_square_window_is_refused_with_its_size():
    state = {"attn.relative_position_bias_table": torch.zeros(15, 2)}
    with pytest.raises(ShapeError, match="a bias table of 15 offsets is of no square window and not of 4 x 4"):
        swin_block_state(state, "timm", block(1, 0))
