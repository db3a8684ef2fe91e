"""MultiHeadAttention against the attention of BERT, GPT-2 and Llama in Hugging Face transformers, same weights."""

import pytest
import torch

pytest.importorskip("transformers", reason="needs the extra hf")

from transformers import BertConfig, GPT2Config, LlamaConfig
from transformers.models.bert.modeling_bert import BertSelfAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from regard.mask import causal, padding
from regard.nn import MultiHeadAttention
from regard.position import Rotary

TOLERANCE = 1e-6  # float32: a few units in the last place of outputs near 1

B, T, E, HEADS = 2, 7, 32, 4


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fill(module: torch.nn.Module) -> torch.nn.Module:
    """Fixed random weights, large enough that the softmax is not flat."""
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / E**0.5
    return module.eval()


def additive(attend: torch.Tensor) -> torch.Tensor:
    """(B, 1, T, S) as transformers wants it: 0 where True, the lowest float where False."""
    return torch.zeros(attend.shape).masked_fill(~attend, torch.finfo(torch.float32).min)


def keep_of(lengths: list[int], side: str) -> torch.Tensor:
    keep = torch.arange(T) < torch.tensor(lengths)[:, None]
    return keep if side == "right" else keep.flip(1)


def copy_projections(ours: MultiHeadAttention, q: dict, k: dict, v: dict, out: dict) -> MultiHeadAttention:
    for projection, state in zip((ours.q_proj, ours.k_proj, ours.v_proj, ours.out_proj), (q, k, v, out)):
        projection.load_state_dict(state)
    return ours.eval()


def bert(implementation: str) -> tuple[BertSelfAttention, MultiHeadAttention]:
    config = BertConfig(hidden_size=E, num_attention_heads=HEADS, attn_implementation=implementation)
    theirs = fill(BertSelfAttention(config))
    one = {"weight": torch.eye(E), "bias": torch.zeros(E)}  # BERT's last projection is in another module
    states = (theirs.query.state_dict(), theirs.key.state_dict(), theirs.value.state_dict(), one)
    return theirs, copy_projections(MultiHeadAttention(E, HEADS), *states)


def gpt2(implementation: str) -> tuple[GPT2Attention, MultiHeadAttention]:
    config = GPT2Config(n_embd=E, n_head=HEADS, attn_implementation=implementation)
    theirs = fill(GPT2Attention(config, layer_idx=0))
    weights, biases = theirs.c_attn.weight.T.chunk(3), theirs.c_attn.bias.chunk(3)  # Conv1D: (in, out)
    states = [{"weight": weight, "bias": bias} for weight, bias in zip(weights, biases)]
    states.append({"weight": theirs.c_proj.weight.T, "bias": theirs.c_proj.bias})
    return theirs, copy_projections(MultiHeadAttention(E, HEADS, mask=causal()), *states)


def llama(implementation: str, **options) -> tuple[LlamaAttention, MultiHeadAttention, LlamaRotaryEmbedding]:
    config = LlamaConfig(hidden_size=E, num_attention_heads=HEADS, attn_implementation=implementation, **options)
    theirs = fill(LlamaAttention(config, layer_idx=0))
    head_dim = options.get("head_dim", E // HEADS)
    ours = MultiHeadAttention(
        E,
        HEADS,
        num_kv_heads=options["num_key_value_heads"],
        head_dim=head_dim,
        bias=False,
        position=Rotary(head_dim, pairing="half"),
        mask=causal(),
    )
    projections = (theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.o_proj)
    return theirs, copy_projections(ours, *(p.state_dict() for p in projections)), LlamaRotaryEmbedding(config)


both = pytest.mark.parametrize("implementation", ["eager", "sdpa"])
CAUSAL = torch.ones(1, 1, T, T).bool().tril()


@both
def test_bert_is_equal(implementation):
    theirs, ours = bert(implementation)
    x = draws(B, T, E, seed=60)
    torch.testing.assert_close(ours(x), theirs(x)[0], atol=TOLERANCE, rtol=0)


@both
@pytest.mark.parametrize("side", ["right", "left"])
def test_bert_with_padding_is_equal(implementation, side):
    theirs, ours = bert(implementation)
    x = draws(B, T, E, seed=61)
    keep = keep_of([7, 4], side)
    expected = theirs(x, attention_mask=additive(keep[:, None, None, :]))[0]
    torch.testing.assert_close(ours(x, mask=padding(keep)), expected, atol=TOLERANCE, rtol=0)


def test_bert_weights_are_equal():
    theirs, ours = bert("eager")
    x = draws(B, T, E, seed=62)
    torch.testing.assert_close(ours.inspect(x).weights, theirs(x)[1], atol=TOLERANCE, rtol=0)


@both
def test_gpt2_is_equal(implementation):
    theirs, ours = gpt2(implementation)
    x = draws(B, T, E, seed=63)
    expected = theirs(x, attention_mask=additive(CAUSAL))[0]
    torch.testing.assert_close(ours(x), expected, atol=TOLERANCE, rtol=0)


@both
@pytest.mark.parametrize("side", ["right", "left"])
def test_gpt2_with_padding_is_equal_where_there_are_tokens(implementation, side):
    theirs, ours = gpt2(implementation)
    x = draws(B, T, E, seed=64)
    keep = keep_of([7, 4], side)
    expected = theirs(x, attention_mask=additive(CAUSAL & keep[:, None, None, :]))[0]
    torch.testing.assert_close(ours(x, mask=padding(keep))[keep], expected[keep], atol=TOLERANCE, rtol=0)


@both
@pytest.mark.parametrize("options", [{"num_key_value_heads": 2}, {"num_key_value_heads": 1, "head_dim": 12}])
def test_llama_with_fewer_key_heads_and_rotary_is_equal(implementation, options):
    theirs, ours, rotary = llama(implementation, **options)
    x = draws(B, T, E, seed=65)
    angles = rotary(x, torch.arange(T)[None])
    expected = theirs(x, position_embeddings=angles, attention_mask=additive(CAUSAL))[0]
    torch.testing.assert_close(ours(x), expected, atol=TOLERANCE, rtol=0)


def test_llama_decoding_from_our_cache_equals_their_full_forward_with_left_padding():
    theirs, ours, rotary = llama("eager", num_key_value_heads=2)
    x = draws(B, T, E, seed=66)
    keep = keep_of([7, 4], "left")
    positions = (keep.cumsum(1) - 1).masked_fill(~keep, 1)  # what their generate() hands over
    angles = rotary(x, positions)
    expected = theirs(x, position_embeddings=angles, attention_mask=additive(CAUSAL & keep[:, None, None, :]))[0]
    cache = ours.new_cache(B, T)
    parts = []
    for start, end in ((0, 4), (4, 5), (5, 7)):
        mask = padding(keep[:, :end])
        parts.append(ours(x[:, start:end], mask=mask, positions=positions[:, start:end], cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1)[keep], expected[keep], atol=TOLERANCE, rtol=0)
