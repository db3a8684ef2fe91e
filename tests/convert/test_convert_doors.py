"""from_*: a wrong reading is refused with the reading that fits; bad input is one sentence with the way out."""

import logging

import numpy as np
import peers
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import convert
from regard.core.errors import ConversionError, RegardError
from regard.mask import causal

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # the peers, where they are imported

E, HEADS, D = peers.E, peers.HEADS, peers.D


class Packed(nn.Module):
    """Somebody's attention with one packed projection, split as `split` says; packed (B, T, 3 E) to q, k, v (B, H, T, D)."""

    def __init__(self, split, *, is_causal: bool = False, scale: float | None = None, join=None):
        super().__init__()
        self.num_heads = HEADS
        self.qkv, self.proj = nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.split, self.is_causal, self.scale, self.join = split, is_causal, scale, join

    def forward(self, x):
        q, k, v = self.split(self.qkv(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal, scale=self.scale)
        y = y.transpose(1, 2).flatten(2) if self.join is None else self.join(y)
        return self.proj(y)


def axes(*order: str):
    """The split whose last axis has these parts: "3" for query-key-value, "h" for heads, "d" for channels."""
    sizes = {"3": 3, "h": HEADS, "d": D}

    def split(packed):
        parts = packed.unflatten(2, [sizes[one] for one in order])  # (B, T, ...)
        return parts.permute(2 + order.index("3"), 0, 2 + order.index("h"), 1, 2 + order.index("d"))

    return split


PLAIN = axes("3", "h", "d")
READINGS = {  # what the author did -> what must be said
    "packing='per_head'": Packed(axes("h", "3", "d")),
    "packing='interleaved'": Packed(axes("h", "d", "3")),
    "packing='channel_major'": Packed(axes("d", "3", "h")),
    "order='kqv'": Packed(lambda x: PLAIN(x)[[1, 0, 2]]),
    "order='vkq'": Packed(lambda x: PLAIN(x).flip(0)),
    "head_order='strided'": Packed(axes("3", "d", "h"), join=lambda y: y.permute(0, 2, 3, 1).flatten(2)),
    "scale=1.0": Packed(PLAIN, scale=1.0),
    "packing='per_head', order='vkq'": Packed(lambda x: axes("h", "3", "d")(x).flip(0)),
}


@pytest.mark.parametrize("said", READINGS)
def test_a_wrong_guess_is_refused_with_the_reading_that_fits_and_that_reading_works(said):
    module = peers.filled(READINGS[said])
    with pytest.raises(ConversionError, match=r"Packed and our layer differ by .* in the case 'self'") as refused:
        convert.from_torch(module)
    assert str(refused.value).endswith(f"pass {said}")
    how = eval(f"dict({said})")
    layer = convert.from_torch(module, **how)
    x = peers.draws(2, 5, E, seed=1)
    torch.testing.assert_close(layer(x), module(x), atol=1e-6, rtol=0)
    assert convert.report(layer).difference <= convert.report(layer).allowed


def test_the_words_name_the_packing():
    with pytest.raises(ConversionError, match=r"the output matches per-head packing: pass packing='per_head'"):
        convert.from_torch(peers.filled(READINGS["packing='per_head'"]))


def test_causality_of_a_module_is_found_by_looking():
    module = peers.filled(Packed(PLAIN, is_causal=True))
    layer = convert.from_torch(module)
    assert repr(layer.mask) == "causal()"
    assert convert.from_torch(peers.filled(Packed(PLAIN))).mask is None
    with pytest.raises(ConversionError, match=r"the output matches the mask causal\(\): pass mask=causal\(\)"):
        convert.from_torch(module, mask=None)


@pytest.mark.parametrize("heads", [2, 8])
def test_a_number_of_heads_that_fits_the_shapes_and_is_wrong_is_found_by_running(heads):
    for door, module in (
        (convert.from_torch, peers.filled(Packed(PLAIN))),
        (convert.from_timm, peers.timm_attention()),
    ):
        with pytest.raises(ConversionError, match=r"the output matches 4 heads: pass num_heads=4"):
            door(module, num_heads=heads)


def test_a_module_that_does_more_is_refused_and_not_explained_away():
    class Gated(Packed):
        def forward(self, x):
            return super().forward(x) * torch.sigmoid(x)

    with pytest.raises(
        ConversionError, match=r"no other packing, .* fits either .* Does the module do more than attention"
    ):
        convert.from_torch(peers.filled(Gated(PLAIN)))


def test_a_module_that_cannot_be_called_says_how_to_go_on():
    class Strange(Packed):
        def forward(self, x, *, table):
            return x + table

    with pytest.raises(ConversionError, match=r"Strange could not be called as self-attention .* give verify=False"):
        convert.from_torch(peers.filled(Strange(PLAIN)))
    layer = convert.from_torch(peers.filled(Strange(PLAIN)), verify=False)
    assert convert.report(layer).how == "not verified"


def test_sixteen_bits_are_compared_in_32():
    module = peers.torch_mha().to(torch.bfloat16)
    layer = convert.from_torch(module)
    assert layer.q_proj.weight.dtype == torch.bfloat16
    assert convert.report(layer).difference < 1e-5


def test_a_layer_of_small_weights_is_compared_on_large_inputs():
    module = peers.timm_attention()
    for parameter in module.parameters():
        parameter.data *= 0.02  # as a fresh initialisation: the softmax of unit inputs is flat
    with pytest.raises(ConversionError, match=r"pass num_heads=4"):
        convert.from_timm(module, num_heads=2)
    assert convert.from_timm(module) is not None


def test_a_last_projection_of_zeros_is_compared_with_other_weights():
    module = peers.timm_attention()
    module.proj.weight.data.zero_()
    layer = convert.from_timm(module)
    assert not layer.out_proj.weight.any()
    assert convert.report(layer).how == "both sides ran with drawn weights, as the own ones give 0"
    with pytest.raises(ConversionError, match=r"the output matches 4 heads: pass num_heads=4"):
        convert.from_timm(module, num_heads=2)
    assert not module.proj.weight.any()


def test_other_widths_of_keys_and_values_are_read():
    module = peers.torch_mha(kdim=20, vdim=12)
    layer = convert.from_torch(module)
    assert (layer.key_dim, layer.value_dim) == (20, 12)
    assert set(convert.report(layer).differences) == {"cross"}


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_options_of_torch_that_add_a_key_are_refused(options):
    with pytest.raises(ConversionError, match="add_bias_kv and add_zero_attn add a key of their own"):
        convert.from_torch(nn.MultiheadAttention(E, HEADS, **options))


def states():
    kept = np.load(__import__("pathlib").Path(__file__).parents[1] / "golden" / "timm_attention.npz")
    weights = {name[8:]: torch.from_numpy(kept[name]) for name in kept.files if name.startswith("weights.")}
    return weights, (kept["query"], kept["output.self"])


def test_a_state_dict_is_verified_with_an_example():
    weights, example = states()
    layer = convert.from_timm(weights, num_heads=4, example=example)
    assert convert.report(layer).how == "example"
    assert convert.report(layer).difference < 1e-6
    with pytest.raises(ConversionError, match=r"the output matches 4 heads: pass num_heads=4"):
        convert.from_timm(weights, num_heads=2, example=example)


def test_a_state_dict_alone_is_refused_with_the_three_ways_out():
    weights, _ = states()
    with pytest.raises(
        ConversionError, match=r"give the module itself, example=\(input, output\) of it, or verify=False"
    ):
        convert.from_timm(weights, num_heads=4)
    assert convert.from_timm(weights, num_heads=4, verify=False).num_heads == 4


BROKEN = {
    "missing": (lambda w: w.pop("qkv.weight"), r"the timm state dict has no matrices of queries, keys and values"),
    "missing last": (
        lambda w: w.pop("proj.weight"),
        r"the timm state dict has no last projection that we know by name",
    ),
    "extra": (lambda w: w.update({"gamma": torch.ones(16)}), r"has 1 entries that are no part of an attention: gamma"),
    "shape": (lambda w: w.update({"qkv.weight": torch.ones(47, 16)}), r"47 packed rows do not divide into 4 \+ 4 \+ 4"),
    "width": (
        lambda w: w.update({"proj.weight": torch.ones(16, 12)}),
        r"reads 12 channels, and 4 heads of width 4 make 16",
    ),
    "bias": (lambda w: w.update({"qkv.bias": torch.ones(44)}), r"44 packed rows do not divide"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_checkpoint_that_does_not_fit_is_one_clear_sentence(kind):
    weights, example = states()
    change, said = BROKEN[kind]
    change(weights)
    with pytest.raises(ConversionError, match=said):
        convert.from_timm(weights, num_heads=4, example=example)


def test_a_state_dict_that_does_not_say_its_heads_asks_for_them():
    weights, example = states()
    with pytest.raises(
        ConversionError, match="the timm state dict does not say how many heads it has; give num_heads="
    ):
        convert.from_timm(weights, example=example)


def test_a_keyword_that_nobody_knows_is_refused_with_those_that_are():
    with pytest.raises(ConversionError, match="from_torch does not know heads; it takes num_heads, num_kv_heads"):
        convert.from_torch(peers.torch_mha(), heads=4)


@pytest.mark.parametrize(
    ("door", "given", "said"),
    [
        (convert.from_torch, [1], "a torch module or its state dict was expected, got list"),
        (convert.from_hf, 3, "a Hugging Face attention module was expected, got int"),
        (convert.from_timm, nn.Linear(2, 2), "a timm Attention with a packed qkv was expected, got Linear"),
        (convert.from_x_transformers, nn.Linear(2, 2), "an x_transformers Attention was expected, got Linear"),
        (convert.from_flax, object(), "a flax nnx.MultiHeadAttention was expected, got object"),
        (
            convert.from_keras,
            nn.Linear(2, 2),
            "a Keras MultiHeadAttention or GroupedQueryAttention was expected, got Linear",
        ),
        (convert.from_swin, nn.Linear(2, 2), "a Swin block or window attention was expected, got Linear"),
    ],
)
def test_what_is_no_attention_is_refused_by_its_type(door, given, said):
    with pytest.raises(ConversionError, match=said):
        door(given)


def test_a_keras_layer_that_is_not_built_is_refused_with_what_to_do():
    keras = pytest.importorskip("keras", reason="needs the extra keras")
    layer = keras.layers.MultiHeadAttention(4, 8, name="encoder_attention")
    with pytest.raises(
        ConversionError, match=r"'encoder_attention' has no weights yet; call it once, or layer.build\("
    ):
        convert.from_keras(layer)


@pytest.mark.parametrize("door", ["flax", "keras"])
def test_weights_without_their_framework_are_checked_against_the_stored_case(door):
    from regard.convert import golden_case

    weights = {n[8:]: x for n, x in golden_case.load(door).items() if n.startswith("weights.")}
    read = getattr(convert, f"from_{door}")
    layer = read(weights)
    assert convert.report(layer).how.startswith("golden case of ")
    nested = {}
    for name, x in weights.items():
        part, kind = name.replace("/", ".").split(".")
        nested.setdefault(part, {})[kind] = x
    assert torch.equal(read(nested).q_proj.weight, layer.q_proj.weight)
    key = next(name for name in weights if name.startswith("key") and name.endswith("kernel"))
    with pytest.raises(ConversionError, match="no kernel for key among"):
        read({name: x for name, x in weights.items() if name != key})
    with pytest.raises(ConversionError, match=r"rope\.kernel is no part of an attention"):
        read({**weights, "rope/kernel": weights[key]})
    with pytest.raises(ConversionError, match=r"the kernel 'k' has shape \(16, \d+\); \(E, G, D\) was expected"):
        read({**weights, key: weights[key].reshape(16, -1)})
    with pytest.raises(ConversionError, match=r"the widths must agree: is num_heads or num_kv_heads another\?"):
        read({**weights, key: weights[key][:, :, :2]})


def test_the_weights_of_keras_may_be_a_list_or_have_the_names_of_tensorflow():
    from regard.convert import golden_case

    weights = {n[8:]: x for n, x in golden_case.load("keras").items() if n.startswith("weights.")}
    layer = convert.from_keras(weights)
    for given in (list(weights.values()), {f"{name}:0": x for name, x in weights.items()}):
        again = convert.from_keras(given)
        assert torch.equal(again.q_proj.weight, layer.q_proj.weight)
        assert torch.equal(again.out_proj.bias, layer.out_proj.bias)
    with pytest.raises(
        ConversionError, match=r"a list of 5 arrays is not what get_weights\(\) of a Keras attention gives"
    ):
        convert.from_keras(list(weights.values())[:5])


def test_a_file_that_is_no_onnx_is_refused_with_its_name(tmp_path):
    pytest.importorskip("onnx", reason="needs the extra onnx")
    with pytest.raises(ConversionError, match=r"gone.onnx cannot be read as ONNX: FileNotFoundError"):
        convert.from_onnx(tmp_path / "gone.onnx")
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(ConversionError, match=r"text.onnx cannot be read as ONNX: DecodeError|has no Attention node"):
        convert.from_onnx(tmp_path / "text.onnx")


def test_a_stored_case_that_is_not_met_is_refused(monkeypatch):
    from regard.adapt import keras_layers
    from regard.convert import golden_case

    kept = dict(golden_case.load("keras"))
    kept["output.self"] = kept["output.self"] + 0.1
    monkeypatch.setattr(golden_case, "load", lambda door: kept)
    with pytest.raises(ConversionError, match="the stored case of keras is not met: keras, golden case of keras"):
        golden_case.golden_case(keras_layers, "keras")


def test_a_conversion_is_logged_and_kept_with_its_layer(caplog):
    with caplog.at_level(logging.INFO, logger="regard.convert"):
        layer = convert.from_torch(peers.torch_mha())
    assert "torch.nn.MultiheadAttention, both sides ran: self" in caplog.text
    assert convert.report(layer).layout.num_heads == HEADS
    with pytest.raises(ConversionError, match="this Linear was not made by regard"):
        convert.report(nn.Linear(2, 2))


def test_the_source_is_left_alone():
    module = peers.torch_mha(dropout=0.3).train()
    before = {name: x.clone() for name, x in module.state_dict().items()}
    layer = convert.from_torch(module)
    assert module.training
    assert not layer.training
    assert layer.dropout == 0.3
    layer.q_proj.weight.data.zero_()
    assert all(torch.equal(x, before[name]) for name, x in module.state_dict().items())


def test_a_layer_may_be_given_what_the_module_leaves_to_its_caller():
    layer = convert.from_torch(peers.torch_mha(), mask=causal())
    assert repr(layer.mask) == "causal()"
    assert issubclass(ConversionError, RegardError)
