"""Our attention in the place of a model's own: torch, transformers, timm, x-transformers; what is left, and undo."""

import importlib
import math

import pytest
import torch
from peers import draws, filled
from torch import nn

import regard
from regard.convert.stand_in import InTimm, InTorch, InXTransformers
from regard.convert.stand_in_hf import InHuggingFace, turned
from regard.core.errors import AdaptError, ConversionError
from regard.nn import MultiHeadAttention

EQUAL = 1e-5  # float32 through a few layers
B, T, E, HEADS = 2, 7, 32, 4


def encoder(**options) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(E, HEADS, 48, batch_first=True, **options)
    return filled(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def hidden() -> torch.Tensor:
    """(B, T) bool, True = padding."""
    return torch.arange(T) >= torch.tensor([[T], [T - 3]])


def test_a_torch_encoder_with_padding_computes_the_same_with_ours_and_has_its_own_back_after_undo():
    model, x = encoder(), draws(B, T, E, seed=1)
    before = model(x, src_key_padding_mask=hidden())
    own = model.layers[0].self_attn
    with regard.replace(model) as replaced:
        assert isinstance(model.layers[0].self_attn, InTorch)
        assert isinstance(model.layers[0].self_attn.layer, MultiHeadAttention)
        for training in (False, True):
            model.train(training)
            for part in model.modules():
                if isinstance(part, nn.Dropout):
                    part.p = 0.0
                if isinstance(part, MultiHeadAttention):
                    part.dropout = 0.0
            after = model(x, src_key_padding_mask=hidden())
            assert (after - before)[~hidden()].abs().max() <= EQUAL
        model.eval()
    assert set(replaced.modules) == {"layers.0.self_attn", "layers.1.self_attn"}
    assert max(replaced.modules.values()) <= EQUAL
    assert model.layers[0].self_attn is own
    assert torch.equal(model(x, src_key_padding_mask=hidden()), before)


@pytest.mark.parametrize("kind", ["bool", "float", "bias"])
def test_a_torch_decoder_reads_its_masks_as_torch_does(kind):
    layer = nn.TransformerDecoderLayer(E, HEADS, 48, dropout=0.0)  # time first
    model = filled(nn.TransformerDecoder(layer, 2))
    future = torch.ones(T, T).triu(1).bool()
    attn = future if kind == "bool" else torch.zeros(T, T).masked_fill(future, float("-inf"))
    attn = attn + draws(T, T, seed=4).masked_fill(future, 0) if kind == "bias" else attn
    keys = hidden() if kind == "bool" else torch.zeros(B, T).masked_fill(hidden(), float("-inf"))
    given = (draws(T, B, E, seed=1), draws(T, B, E, seed=2), attn)
    with torch.no_grad():
        before = model(*given, tgt_key_padding_mask=keys, memory_key_padding_mask=keys)
        replaced = regard.replace(model)
        after = model(*given, tgt_key_padding_mask=keys, memory_key_padding_mask=keys)
    assert len(replaced.modules) == 4
    assert (after - before).abs().max() <= EQUAL


@pytest.mark.parametrize("average", [True, False])
def test_weights_alone_tensors_and_widths_are_those_of_torch(average):
    holder = nn.ModuleDict({"attention": filled(nn.MultiheadAttention(E, HEADS, kdim=20, vdim=24, batch_first=True))})
    query, key, value = draws(B, T, E, seed=1), draws(B, 9, 20, seed=2), draws(B, 9, 24, seed=3)
    calls = [(query, key, value), (query[0], key[0], value[0])]
    with torch.no_grad():
        before = [holder["attention"](*given, average_attn_weights=average) for given in calls]
        regard.replace(holder)
        after = [holder["attention"](*given, average_attn_weights=average) for given in calls]
    for one, other in zip(before, after, strict=True):
        for x, y in zip(one, other, strict=True):
            torch.testing.assert_close(y, x, atol=EQUAL, rtol=0)


def test_gradients_go_to_our_weights_and_are_those_of_torch():
    model, x = encoder(dropout=0.0), draws(B, T, E, seed=1)
    model(x).square().sum().backward()
    own = model.layers[1].self_attn.in_proj_weight.grad.chunk(3)
    with regard.replace(model):
        model(x).square().sum().backward()
        layer = model.layers[1].self_attn.layer
        for mine, right in zip((layer.q_proj, layer.k_proj, layer.v_proj), own, strict=True):
            torch.testing.assert_close(mine.weight.grad, right, atol=1e-4, rtol=1e-4)


def test_a_frozen_module_stays_frozen_and_a_shared_one_shared():
    shared = filled(nn.MultiheadAttention(E, HEADS, batch_first=True)).requires_grad_(False)
    model = nn.ModuleDict({"one": shared, "two": shared})
    replaced = regard.replace(model)
    assert model["one"] is model["two"]
    assert set(replaced.modules) == {"one", "two"}
    assert not any(p.requires_grad for p in model.parameters())
    replaced.undo()
    assert model["one"] is model["two"] is shared


@pytest.mark.parametrize("masked", [False, True])
def test_timm_attention_with_norms_and_masks(masked):
    from regard.bench.timm_peer import load_timm

    (code,) = load_timm("layers.attention")
    module = filled(code.Attention(E, HEADS, qkv_bias=True, qk_norm=True, norm_layer=nn.LayerNorm, proj_drop=0.1))
    holder, x = nn.Sequential(module), draws(B, T, E, seed=1)
    given = {"attn_mask": torch.ones(T, T).tril().bool()[None, None]} if masked else {}
    with torch.no_grad():
        before = holder[0](x, **given)
        regard.replace(holder)
        assert isinstance(holder[0], InTimm)
        torch.testing.assert_close(holder[0](x, **given), before, atol=EQUAL, rtol=0)
        if masked:
            torch.testing.assert_close(holder[0](x, is_causal=True), before, atol=EQUAL, rtol=0)


def test_an_x_transformers_decoder_with_grouped_heads_and_cross_attention():
    code = pytest.importorskip("x_transformers", reason="needs x-transformers")
    model = filled(code.Decoder(dim=E, depth=2, heads=HEADS, attn_kv_heads=2, cross_attend=True, use_rmsnorm=True))
    x, context = draws(B, T, E, seed=1), draws(B, 9, E, seed=2)
    keep = torch.arange(9) < torch.tensor([[9], [5]])
    with torch.no_grad():
        before = model(x, context=context, mask=~hidden(), context_mask=keep)
        replaced = regard.replace(model)
        after = model(x, context=context, mask=~hidden(), context_mask=keep)
    assert replaced.left == {}
    assert len(replaced.modules) == 4
    assert sum(isinstance(part, InXTransformers) for part in model.modules()) == 4
    assert (after - before)[~hidden()].abs().max() <= EQUAL


@pytest.mark.parametrize("causal", [None, True, False])
def test_an_x_transformers_attention_with_a_window_takes_causal_per_call(causal):
    code = pytest.importorskip("x_transformers.x_transformers", reason="needs x-transformers")
    holder, x = (
        nn.Sequential(filled(code.Attention(E, heads=HEADS, causal=True, max_attend_past=2))),
        draws(B, T, E, seed=1),
    )
    keep = ~hidden()
    with torch.no_grad():
        before = holder[0](x, mask=keep, causal=causal)
        regard.replace(holder)
        assert (holder[0](x, mask=keep, causal=causal) - before)[keep].abs().max() <= EQUAL


def tiny(name: str, config: str, **more):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    sizes = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "vocab_size": 60,
    }
    options = getattr(transformers, config)(**{**sizes, **more})
    options._attn_implementation = more.get("attn_implementation", "eager")
    return filled(getattr(transformers, name)(options))


def ids() -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.randint(3, 60, (B, T), generator=torch.Generator().manual_seed(0)),
        "attention_mask": (~hidden()).long(),
    }


HUGGING_FACE = {
    "bert": ("BertModel", "BertConfig", {}),
    "gpt2": ("GPT2Model", "GPT2Config", {}),
    "gpt_neox": ("GPTNeoXModel", "GPTNeoXConfig", {"bos_token_id": 1, "eos_token_id": 2}),
    "phi, partial rotary": ("PhiModel", "PhiConfig", {}),
    "llama, sdpa": ("LlamaModel", "LlamaConfig", {"num_key_value_heads": 2, "attn_implementation": "sdpa"}),
    "qwen3, norms": ("Qwen3Model", "Qwen3Config", {"num_key_value_heads": 2, "head_dim": 16}),
    "cohere, interleaved": ("CohereModel", "CohereConfig", {"num_key_value_heads": 2}),
    "bloom, alibi": ("BloomModel", "BloomConfig", {}),
}


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_face_models_compute_the_same_with_ours(name):
    cls, config, more = HUGGING_FACE[name]
    model, given = tiny(cls, config, **more), ids()
    with torch.no_grad():
        before = model(**given).last_hidden_state
        replaced = regard.replace(model)
        after = model(**given).last_hidden_state
    assert (len(replaced.modules), replaced.left) == (model.config.num_hidden_layers, {})
    assert (after - before)[~hidden()].abs().max() <= EQUAL


def test_generation_with_a_cache_and_recorded_weights_are_as_before():
    model, given = tiny("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2), ids()
    given["attention_mask"] = given["attention_mask"].flip(1)  # padding on the left
    with torch.no_grad():
        before = model.generate(**given, max_new_tokens=5, do_sample=False, pad_token_id=0)
        weights = model(**given, output_attentions=True).attentions
        with regard.replace(model):
            assert sum(isinstance(part, InHuggingFace) for part in model.modules()) == 2
            after = model.generate(**given, max_new_tokens=5, do_sample=False, pad_token_id=0)
            recorded = model(**given, output_attentions=True).attentions
    assert before.tolist() == after.tolist()
    keep = given["attention_mask"].bool()
    assert len(recorded) == len(weights) == 2
    for one, other in zip(weights, recorded, strict=True):
        torch.testing.assert_close(other.transpose(1, 2)[keep], one.transpose(1, 2)[keep], atol=1e-6, rtol=0)


class OwnAttention(nn.Module):
    def forward(self, x):
        return x


def test_what_is_left_is_listed_with_its_reason_and_the_report_can_be_printed():
    extra = filled(nn.MultiheadAttention(E, HEADS, add_bias_kv=True))
    parts = {"good": filled(nn.MultiheadAttention(E, HEADS)), "extra": extra, "own": OwnAttention()}
    model = nn.ModuleDict(parts | {"kept": filled(nn.MultiheadAttention(E, HEADS))})
    replaced = regard.replace(model, only=lambda path, module: path != "kept")
    assert list(replaced.modules) == ["good"]
    assert replaced.left["kept"] == "only= said so"
    assert "add_bias_kv and add_zero_attn add a key of their own" in replaced.left["extra"]
    assert replaced.left["own"].startswith("OwnAttention is of no library that is read here (torch, transformers, timm")
    lines = str(replaced).splitlines()
    assert lines[0] == "1 replaced, 3 left in ModuleDict"
    assert lines[1].startswith("  replaced good: ")
    assert lines[1].endswith(" apart on random input")


def test_a_module_that_computes_something_else_under_a_known_name_is_left():
    class Doubled(nn.MultiheadAttention):
        def forward(self, *given, **named):
            output, weights = super().forward(*given, **named)
            return 2 * output, weights

    model = nn.ModuleDict(
        {"a": filled(Doubled(E, HEADS, batch_first=True)), "b": filled(nn.MultiheadAttention(E, HEADS))}
    )
    replaced = regard.replace(model)
    assert list(replaced.modules) == ["b"]
    assert "torch.nn.MultiheadAttention and our layer differ by" in replaced.left["a"]
    trusted = regard.replace(nn.ModuleDict({"a": model["a"]}), verify=False)
    assert math.isnan(trusted.modules["a"])
    assert "not verified" in str(trusted)


def test_models_in_which_nothing_can_be_exchanged_are_refused_with_the_reasons():
    with pytest.raises(ConversionError, match="no attention module was found in Linear"):
        regard.replace(nn.Linear(2, 2))
    with pytest.raises(
        ConversionError, match="none of the 1 attention modules of Sequential could be exchanged: 0: OwnAtt"
    ):
        regard.replace(nn.Sequential(OwnAttention()))
    with pytest.raises(ConversionError, match="a model was expected, got list"):
        regard.replace([])  # pyright: ignore[reportArgumentType]


def test_arguments_that_ours_does_not_have_are_refused_when_they_come():
    holder = nn.ModuleDict({"a": filled(nn.MultiheadAttention(E, HEADS, batch_first=True))})
    regard.replace(holder)
    x = draws(B, T, E, seed=1)
    with pytest.raises(AdaptError, match="is_causal=True is a hint about attn_mask, which is missing"):
        holder["a"](x, x, x, is_causal=True)
    nested = torch.nested.nested_tensor([x[0], x[1, :3]], layout=torch.jagged)
    with pytest.raises(AdaptError, match="nested tensors do not go into this attention"):
        holder["a"](nested, nested, nested)
    code = importlib.import_module("x_transformers") if importlib.util.find_spec("x_transformers") else None
    if code is not None:
        layers = filled(code.Encoder(dim=E, depth=1, heads=HEADS))
        regard.replace(layers)
        module = next(part for part in layers.modules() if isinstance(part, InXTransformers))
        with pytest.raises(AdaptError, match="mem, prev_attn came to an x_transformers attention"):
            module(x, mem=x, prev_attn=x)


def test_hugging_face_cross_attention_is_refused_when_it_comes():
    model = tiny("BertModel", "BertConfig")
    regard.replace(model)
    x = draws(B, T, 64, seed=1)
    module = model.encoder.layer[0].attention.self
    with pytest.raises(
        AdaptError, match="encoder_hidden_states came to BertSelfAttention, which stands in for self-att"
    ):
        module(x, encoder_hidden_states=x)
    with pytest.raises(AdaptError, match="passes head_mask to its attention, which ours does not implement"):
        module(x, head_mask=torch.ones(4))


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_angles_turn_pairs_and_leave_the_channels_behind_them(pairing):
    x, angle = draws(1, 2, 3, 6, seed=1), draws(1, 3, 2, seed=2)
    both = torch.cat([angle, angle], dim=-1) if pairing == "half" else angle.repeat_interleave(2, dim=-1)
    found = turned(x, both.cos(), both.sin(), pairing)
    first, second = ((0, 1), (2, 3)) if pairing == "half" else ((0, 2), (1, 3))
    plane = torch.complex(x[..., first], x[..., second]) * torch.polar(torch.ones_like(angle), angle)[:, None]
    torch.testing.assert_close(found[..., first], plane.real)
    torch.testing.assert_close(found[..., second], plane.imag)
    assert torch.equal(found[..., 4:], x[..., 4:])
