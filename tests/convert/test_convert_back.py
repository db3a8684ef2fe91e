"""to_*: our layer to every framework that is installed and back, exactly; and what has no place there is refused by name."""

import importlib.util
import sys

import peers
import pytest
import torch
from torch import nn

from regard import convert
from regard.bench.timm_peer import load_timm
from regard.convert.build import projections_of
from regard.core.errors import ConversionError, MissingExtraError
from regard.mask import causal
from regard.nn import AlibiBias, MultiHeadAttention
from regard.position import Rotary

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # the peers, where they are imported

E, HEADS, D = peers.E, peers.HEADS, peers.D
PAIRS = {  # door -> the package it needs
    "torch": "torch",
    "timm": "timm",
    "x_transformers": "x_transformers",
    "keras": "keras",
    "flax": "flax",
}


def layer(**options) -> MultiHeadAttention:
    return peers.filled(MultiHeadAttention(E, HEADS, **options))


def doors(name: str):
    if importlib.util.find_spec(PAIRS[name]) is None:
        pytest.skip(f"{PAIRS[name]} is not installed")
    if name == "timm":
        load_timm("layers.attention")
    return getattr(convert, f"to_{name}"), getattr(convert, f"from_{name}")


def same(one: MultiHeadAttention, other: MultiHeadAttention) -> None:
    for mine, theirs in zip(projections_of(one), projections_of(other)):
        assert torch.equal(mine.weight, theirs.weight)
        if mine.bias is not None or theirs.bias is not None:
            assert torch.equal(mine.bias, theirs.bias)


@pytest.mark.parametrize("name", PAIRS)
def test_a_layer_goes_there_and_comes_back_the_same(name):
    to, back = doors(name)
    ours = layer(bias=name != "x_transformers")
    theirs = to(ours)
    assert convert.report(theirs).difference <= convert.report(theirs).allowed
    same(ours, back(theirs))


@pytest.mark.parametrize("name", ["x_transformers", "keras", "flax"])
def test_fewer_key_heads_keep_their_meaning(name):
    to, back = doors(name)
    ours = layer(bias=name != "x_transformers", num_kv_heads=2)
    again = back(to(ours))
    assert again.num_kv_heads == 2
    same(ours, again)


@pytest.mark.parametrize("name", ["torch", "timm"])
def test_where_there_are_no_fewer_key_heads_each_is_repeated_for_its_queries(name):
    to, back = doors(name)
    ours = layer(num_kv_heads=2)
    again = back(to(ours))
    assert again.num_kv_heads == HEADS
    x = peers.draws(2, 5, E, seed=2)
    torch.testing.assert_close(again(x), ours(x), atol=1e-6, rtol=0)
    rows = again.k_proj.weight.unflatten(0, (HEADS, D))
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[1], rows[2])


def test_a_layer_with_a_mask_of_its_own_is_compared_with_that_mask():
    theirs = convert.to_torch(layer(mask=causal()))
    report = convert.report(theirs)
    assert "cross" not in report.differences
    assert report.difference <= report.allowed


def test_other_widths_of_keys_go_to_torch_and_back():
    ours = layer(key_dim=20, value_dim=12)
    theirs = convert.to_torch(ours)
    assert (theirs.kdim, theirs.vdim) == (20, 12)
    same(ours, convert.from_torch(theirs))


def test_a_module_of_yours_is_filled():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.num_heads, self.to_qkv, self.to_out = HEADS, nn.Linear(E, 3 * E), nn.Linear(E, E)

        def forward(self, x):
            q, k, v = self.to_qkv(x).unflatten(2, (3, HEADS, D)).permute(2, 0, 3, 1, 4)
            return self.to_out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    ours, mine = layer(), Mine()
    assert convert.to_torch(ours, into=mine) is mine
    same(ours, convert.from_torch(mine))


REFUSED = {
    "rotary": ({"position": Rotary(D, pairing="half")}, "rotary or other positions"),
    "alibi": ({"attention_bias": AlibiBias(HEADS)}, "an attention bias"),
    "softcap": ({"softcap": 20.0}, "a softcap"),
    "scale": ({"scale": 1.0}, "a scale of its own"),
    "norms": ({"qk_norm": nn.RMSNorm}, "norms of queries and keys"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("name", ["torch", "timm", "keras"])
def test_what_has_no_place_there_is_refused_by_name(name, what):
    to, _ = doors(name)
    options, said = REFUSED[what]
    with pytest.raises(ConversionError, match=f"has no place for {said} of the layer"):
        to(layer(**options))


def test_heads_that_do_not_fill_the_width_are_refused_by_torch_and_taken_by_keras():
    ours = layer(head_dim=5)
    with pytest.raises(ConversionError, match=r"heads of embed_dim / num_heads = 8 channels; the layer's have 5"):
        convert.to_torch(ours)
    to, back = doors("keras")
    same(ours, back(to(ours)))


def test_a_bias_has_no_place_in_x_transformers():
    to, _ = doors("x_transformers")
    with pytest.raises(ConversionError, match=r"the layer has 'q.bias' and the target has no place for it"):
        to(layer())


def test_a_target_whose_option_ours_lacks_is_refused_by_the_comparison():
    doors("timm")
    from timm.layers.attention import Attention

    target = Attention(E, HEADS, qkv_bias=True, qk_norm=True, norm_layer=nn.LayerNorm)
    with pytest.raises(ConversionError, match=r"differ by .* one of them has an option that the other lacks"):
        convert.to_timm(layer(), into=target)


@pytest.mark.parametrize(
    ("option", "said"), [({"gated": True}, "a gate"), ({"scale_norm": True, "norm_layer": nn.LayerNorm}, "a norm")]
)
def test_options_of_timm_that_we_lack_are_refused_by_name(option, said):
    doors("timm")
    with pytest.raises(ConversionError, match=f"timm Attention has {said} "):
        convert.from_timm(peers.timm_attention(**option))


def test_norms_of_queries_and_keys_come_along_from_timm():
    doors("timm")
    module = peers.timm_attention(qk_norm=True, norm_layer=nn.LayerNorm)
    again = convert.from_timm(module)
    assert torch.equal(again.q_norm.weight, module.q_norm.weight)


@pytest.mark.parametrize("option", ["qk_norm", "gate_values", "head_scale", "on_attn"])
def test_options_of_x_transformers_that_we_lack_are_refused(option):
    doors("x_transformers")
    with pytest.raises(ConversionError, match="this x_transformers Attention"):
        convert.from_x_transformers(peers.x_attention(**{option: True}))


def test_masks_and_caps_of_x_transformers_come_along():
    doors("x_transformers")
    window = convert.from_x_transformers(peers.x_attention(causal=True, max_attend_past=2))
    assert repr(window.mask) == "causal() & sliding_window(left=2)"
    capped = convert.from_x_transformers(peers.x_attention(softclamp_logits=True, logit_softclamp_value=3.0))
    assert capped.softcap == 3.0


def test_a_band_of_keras_comes_along():
    doors("keras")
    import keras

    made = keras.layers.MultiHeadAttention(HEADS, D, sliding_window=3)
    made.build((None, None, E), (None, None, E))
    layer = convert.from_keras(made)
    assert repr(layer.mask) == "sliding_window(left=2, right=2)"
    assert "cross" not in convert.report(layer).differences


def test_swin_blocks_and_windows_are_read_at_every_version_and_shift():
    v1, v2 = load_timm("models.swin_transformer", "models.swin_transformer_v2")
    sizes = {"input_resolution": (14, 14), "num_heads": 2, "window_size": 4}
    for shift in (0, 2):
        for made in (
            v1.SwinTransformerBlock(8, shift_size=shift, **sizes),
            v2.SwinTransformerV2Block(8, shift_size=shift, **sizes),
        ):
            block = convert.from_swin(peers.filled(made))
            assert block.attention.shift == (shift, shift)
            assert convert.report(block).difference < 1e-5
    window = convert.from_swin(peers.filled(v1.WindowAttention(8, 2, window_size=(3, 4))))
    assert window.window_size == (3, 4)
    with pytest.raises(
        ConversionError, match=r"WindowAttention attends inside windows; regard\.convert\.from_swin reads it"
    ):
        convert.from_timm(peers.filled(v1.WindowAttention(8, 2, window_size=4)))


def test_swin_goes_there_and_comes_back_the_same():
    v1, v2 = load_timm("models.swin_transformer", "models.swin_transformer_v2")
    sizes = {"input_resolution": (8, 12), "num_heads": 2, "window_size": 4, "shift_size": 2}
    makers = [
        lambda: v1.SwinTransformerBlock(8, **sizes),
        lambda: v2.SwinTransformerV2Block(8, **sizes),
        lambda: v1.WindowAttention(8, 2, window_size=(3, 4)),
    ]
    for make in makers:
        source, target = peers.filled(make()), make()
        convert.to_swin(convert.from_swin(source), target)
        assert convert.report(target).difference < 1e-5
        assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters()))
    layer = convert.from_swin(peers.filled(makers[2]()))
    with pytest.raises(
        ConversionError, match=r"1 have another name or shape, such as 'qkv\.bias'; make it with the same"
    ):
        convert.to_swin(layer, v1.WindowAttention(8, 2, window_size=(3, 4), qkv_bias=False))
    with pytest.raises(ConversionError, match=r"1 have another name or shape, such as 'relative_position_bias_table'"):
        convert.to_swin(layer, v1.WindowAttention(8, 2, window_size=4))


def test_windows_of_hugging_face_are_read():
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    from transformers.models.swin.modeling_swin import SwinAttention

    made = SwinAttention(transformers.SwinConfig(attn_implementation="eager"), 8, 2, 4)
    layer = convert.from_swin(peers.filled(made))
    assert layer.window_size == (4, 4)
    assert convert.report(layer).difference < 1e-5
    target = SwinAttention(transformers.SwinConfig(attn_implementation="eager"), 8, 2, 4)
    convert.to_swin(layer, target)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), target.parameters()))
    made.scaling = 1.0
    with pytest.raises(ConversionError, match=r"SwinAttention and ours differ by .* two by three windows"):
        convert.from_swin(made)


@pytest.mark.parametrize(
    ("package", "call", "said"),
    [
        (
            "keras",
            lambda: convert.to_keras(layer()),
            r"this needs Keras 3; install it with: pip install 'regard\[keras\]'",
        ),
        ("flax", lambda: convert.to_flax(layer()), "this needs Flax; install it with: pip install flax"),
        ("onnx", lambda: convert.to_onnx(layer()), r"this needs onnx; install it with: pip install 'regard\[onnx\]'"),
        (
            "onnx",
            lambda: convert.from_onnx("a.onnx"),
            r"this needs onnx; install it with: pip install 'regard\[onnx\]'",
        ),
        (
            "x_transformers",
            lambda: convert.to_x_transformers(layer()),
            "this needs x_transformers; install it with: pip install x-transformers",
        ),
        (
            "timm",
            lambda: convert.to_timm(layer()),
            r"timm cannot be imported here \(.*\); install it with its torchvision",
        ),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_way_to_install_it(package, call, said, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=said):
        call()
