"""from_hf: twenty attention modules of transformers, each run on both sides; their facts, and the way back."""

import peers
import pytest
import torch

pytest.importorskip("transformers", reason="needs the extra hf")

from regard import convert
from regard.core.errors import ConversionError
from regard.position import Llama3, Rotary, YaRN

E, HEADS = peers.E, peers.HEADS
LIMIT = 1e-6  # float32, outputs near 1
SIZES = {"hidden_size": E, "num_attention_heads": HEADS}
GQA = {**SIZES, "num_key_value_heads": 2}
FIRST = {"options": {"layer_idx": 0}}

MODULES = {  # family, class, configuration, settings
    "bert": ("bert", "BertAttention", "BertConfig", SIZES),
    "bert, heads only": ("bert", "BertSelfAttention", "BertConfig", SIZES),
    "roberta": ("roberta", "RobertaAttention", "RobertaConfig", SIZES),
    "electra": ("electra", "ElectraAttention", "ElectraConfig", SIZES),
    "distilbert": ("distilbert", "DistilBertSelfAttention", "DistilBertConfig", {"dim": E, "n_heads": HEADS}),
    "albert": ("albert", "AlbertAttention", "AlbertConfig", SIZES),
    "vit": ("vit", "ViTAttention", "ViTConfig", SIZES),
    "deit": ("deit", "DeiTAttention", "DeiTConfig", SIZES),
    "clip": ("clip", "CLIPAttention", "CLIPTextConfig", SIZES),
    "gpt2": ("gpt2", "GPT2Attention", "GPT2Config", {"n_embd": E, "n_head": HEADS, **FIRST}),
    "gpt_neox": ("gpt_neox", "GPTNeoXAttention", "GPTNeoXConfig", {**SIZES, **FIRST}),
    "bloom": ("bloom", "BloomAttention", "BloomConfig", {"hidden_size": E, "n_head": HEADS, **FIRST}),
    "gptj": ("gptj", "GPTJAttention", "GPTJConfig", {"n_embd": E, "n_head": HEADS, "rotary_dim": 4, **FIRST}),
    "llama": ("llama", "LlamaAttention", "LlamaConfig", {**GQA, **FIRST}),
    "mistral": ("mistral", "MistralAttention", "MistralConfig", {**GQA, "sliding_window": 3, **FIRST}),
    "qwen2": ("qwen2", "Qwen2Attention", "Qwen2Config", {**GQA, **FIRST}),
    "qwen3": ("qwen3", "Qwen3Attention", "Qwen3Config", {**GQA, "head_dim": 8, **FIRST}),
    "gemma2": ("gemma2", "Gemma2Attention", "Gemma2Config", {**GQA, "head_dim": 8, "sliding_window": 4, **FIRST}),
    "cohere": ("cohere", "CohereAttention", "CohereConfig", {**GQA, **FIRST}),
    "phi": ("phi", "PhiAttention", "PhiConfig", {**GQA, **FIRST}),
    "t5": ("t5", "T5Attention", "T5Config", {"d_model": E, "d_kv": 6, "num_heads": HEADS, **FIRST}),
}


def made(name: str):
    family, cls, config, settings = MODULES[name]
    return peers.hf(family, cls, config, **settings)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_read_and_computes_the_same(name):
    layer = convert.from_hf(made(name))
    report = convert.report(layer)
    assert set(report.differences) >= {"self", "padding", "causal", "causal and padding"}
    assert report.difference <= max(LIMIT, report.allowed / 10)


def test_what_a_configuration_says_is_in_the_layer():
    mistral = convert.from_hf(made("mistral"))
    assert (mistral.num_heads, mistral.num_kv_heads) == (HEADS, 2)
    assert repr(mistral.mask) == "causal() & sliding_window(left=2)"
    assert convert.from_hf(made("bloom")).attention_bias is not None
    assert convert.from_hf(made("gemma2")).softcap == 50.0
    assert convert.from_hf(made("cohere")).position.pairing == "interleaved"
    assert convert.from_hf(made("gptj")).position == Rotary(8, pairing="interleaved", width=4)
    assert convert.from_hf(made("gpt_neox")).position.width == 2
    assert convert.from_hf(made("t5")).scale == 1.0
    assert convert.from_hf(made("bert")).dropout == 0.1
    assert convert.from_hf(made("qwen3")).q_norm is not None


def test_the_table_of_t5_is_read_and_given_back():
    module = peers.hf(
        "t5",
        "T5Attention",
        "T5Config",
        d_model=E,
        d_kv=6,
        num_heads=HEADS,
        options={"layer_idx": 0, "has_relative_attention_bias": True},
    )
    layer = convert.from_hf(module)
    assert torch.equal(layer.attention_bias.table, module.relative_attention_bias.weight)
    layer.attention_bias.table.data += 1.0
    layer.attention_bias.table.data[3] -= 2.0
    convert.to_hf(layer, module)
    assert torch.equal(layer.attention_bias.table, module.relative_attention_bias.weight)


@pytest.mark.parametrize(
    ("said", "scaling"),
    [
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
            Llama3(8.0, 16, 1.0, 4.0),
        ),
        ({"rope_type": "yarn", "factor": 4.0}, YaRN(4.0, 16)),
    ],
)
def test_scaled_rotary_positions_are_read(said, scaling):
    rope = {"rope_theta": 500000.0, "original_max_position_embeddings": 16, **said}
    module = peers.llama(2, rope_parameters=rope, max_position_embeddings=64)
    layer = convert.from_hf(module)
    assert layer.position.scaling == scaling
    assert layer.position.base == 500000.0


def test_a_module_that_runs_another_backend_is_read_too_and_keeps_it():
    module = peers.llama(2)
    module.config._attn_implementation = "flex_attention"
    assert convert.report(convert.from_hf(module)).difference <= LIMIT
    assert module.config._attn_implementation == "flex_attention"


def test_a_scaling_that_we_lack_is_refused_by_name():
    module = peers.llama(2)
    module.config.rope_parameters = {"rope_type": "longrope", "rope_theta": 1e4}
    with pytest.raises(ConversionError, match="rope_type 'longrope' is not one of default, linear, llama3 and yarn"):
        convert.from_hf(module)


def test_a_norm_over_all_heads_is_refused():
    module = peers.hf("olmo2", "Olmo2Attention", "Olmo2Config", **GQA, **FIRST)
    with pytest.raises(ConversionError, match="Olmo2Attention normalises queries over all heads at once"):
        convert.from_hf(module)


def test_the_other_pairing_gives_the_same_scores_from_reordered_channels():
    module = peers.llama(2)
    half, other = convert.from_hf(module), convert.from_hf(module, pairing="interleaved")
    assert (half.position.pairing, other.position.pairing) == ("half", "interleaved")
    assert not torch.equal(half.q_proj.weight, other.q_proj.weight)
    x = peers.draws(2, 9, E, seed=3)
    torch.testing.assert_close(half(x), other(x), atol=LIMIT, rtol=0)
    with pytest.raises(ConversionError, match="pairing='half' is about rotary positions, and the layer has None"):
        convert.from_hf(made("bert"), pairing="half")


def test_the_wrong_pairing_is_refused_and_named():
    module = peers.llama(2)
    with pytest.raises(ConversionError, match="the output matches half rotary pairs: pass position=Rotary"):
        convert.from_hf(module, position=Rotary(8, pairing="interleaved"))


def test_per_head_packing_read_as_concatenated_is_refused_and_named():
    with pytest.raises(ConversionError, match=r"the output matches per-head packing: pass packing='per_head'"):
        convert.from_hf(peers.gpt_neox(), packing="concatenated")


def test_cross_attention_of_gpt2_has_its_query_apart():
    options = {"layer_idx": 0, "is_cross_attention": True}
    module = peers.hf("gpt2", "GPT2Attention", "GPT2Config", n_embd=E, n_head=HEADS, options=options)
    assert set(convert.report(convert.from_hf(module)).differences) == {"cross"}


def test_whisper_has_no_bias_of_keys_and_takes_a_layer_that_has_one():
    module = peers.whisper()
    layer = convert.from_hf(module)
    assert "cross" in convert.report(layer).differences
    layer.k_proj.bias.data += 3.0  # adds the same to all scores of a query
    assert convert.report(convert.to_hf(layer, peers.whisper())).difference < 1e-5


@pytest.mark.parametrize("name", ["bert", "vit", "gpt2", "gpt_neox", "bloom", "llama", "qwen3", "mistral", "t5"])
def test_weights_go_there_and_back(name):
    source, target = made(name), made(name)
    layer = convert.from_hf(source)
    for parameter in target.parameters():
        parameter.data = parameter.data + 0.1
    convert.to_hf(layer, target)
    kept = dict(target.named_parameters())
    for path, parameter in source.named_parameters():
        if "LayerNorm" not in path:
            torch.testing.assert_close(kept[path], parameter, atol=1e-7, rtol=0)


def test_channels_are_put_in_the_order_of_the_target():
    source, target = peers.llama(2), peers.llama(2)
    convert.to_hf(convert.from_hf(source, pairing="interleaved"), target)
    assert torch.equal(target.q_proj.weight, source.q_proj.weight)


def test_old_names_of_vit_are_read_from_a_checkpoint():
    module = made("vit")
    x = peers.draws(2, 5, E, seed=4)
    old = {"q_proj": "attention.attention.query", "k_proj": "attention.attention.key"}
    old |= {"v_proj": "attention.attention.value", "o_proj": "attention.output.dense"}
    state = {f"{old[name.split('.')[0]]}.{name.split('.')[1]}": x for name, x in module.state_dict().items()}
    with torch.no_grad():
        layer = convert.from_hf(state, num_heads=HEADS, example=(x, module(x)[0]))
    assert convert.report(layer).difference <= LIMIT
    with pytest.raises(ConversionError, match=r"the output matches 4 heads: pass num_heads=4"):
        convert.from_hf(state, num_heads=2, example=(x, module(x)[0].detach()))


def test_a_target_with_other_heads_is_refused_with_both():
    layer = convert.from_hf(peers.llama(2))
    with pytest.raises(ConversionError, match="the layer has 4 query and 2 key heads, the target 4 and 1"):
        convert.to_hf(layer, peers.llama(1))
    with pytest.raises(ConversionError, match=r"the layer's position is Rotary\(.*\) and the target's None"):
        convert.to_hf(layer, made("bert"))


def test_a_target_without_a_last_projection_is_refused_unless_ours_is_the_identity():
    heads_only = made("bert, heads only")
    layer = convert.from_hf(heads_only)
    assert convert.report(convert.to_hf(layer, made("bert, heads only"))).difference < 1e-5
    with pytest.raises(ConversionError, match="BertSelfAttention ends with its joined heads, and the layer has a last"):
        convert.to_hf(convert.from_hf(made("bert")), heads_only)
