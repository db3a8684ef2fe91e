"""MultiHeadAttention by itself: its defaults, its options, its dtypes, and what it refuses word by word."""

import copy

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from regard import reference
from regard.mask import causal, padding, sliding_window
from regard.nn import MultiHeadAttention

EXACT = 1e-12  # float64, a few hundred operations
B, T, E = 2, 5, 24


def draws(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def filled(layer: nn.Module, seed: int = 100) -> nn.Module:
    """The layer in eval mode with fixed random parameters, biases too."""
    for index, parameter in enumerate(layer.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed + index).to(parameter.dtype) / parameter.shape[-1] ** 0.5
    return layer.eval()


def by_hand(layer, query, key, value, mask=None, bias=None):
    """The layer's formula, head by head, with the specification in float64."""
    query, key, value = query.double(), key.double(), value.double()
    layer = copy.deepcopy(layer).double()
    q, k, v = layer.q_proj(query), layer.k_proj(key), layer.v_proj(value)
    q = q.view(*q.shape[:2], -1, layer.head_dim).transpose(1, 2)
    k = k.view(*k.shape[:2], -1, layer.head_dim).transpose(1, 2)
    v = v.view(*v.shape[:2], k.shape[1], -1).transpose(1, 2)
    joined = reference.attention(q, k, v, mask=mask, bias=bias, scale=layer.scale, softcap=layer.softcap)
    return layer.out_proj(joined.transpose(1, 2).flatten(2))


@given(
    heads=st.sampled_from([(1, 1), (4, 4), (4, 2), (4, 1), (6, 3)]),
    widths=st.sampled_from([None, 3, (3, 5), (5, 2)]),
    lengths=st.sampled_from([(1, 1), (3, 3), (2, 4), (4, 1)]),
    softcap=st.sampled_from([None, 2.0]),
    scale=st.sampled_from([None, 0.3]),
    bias=st.booleans(),
)
def test_cross_attention_is_the_formula_for_any_head_counts_and_widths(heads, widths, lengths, softcap, scale, bias):
    options = {"head_dim": widths, "softcap": softcap, "scale": scale, "bias": bias}
    layer = MultiHeadAttention(
        E, heads[0], num_kv_heads=heads[1], key_dim=7, value_dim=9, **options, dtype=torch.float64
    )
    filled(layer)
    query, key, value = (
        draws(B, n, width, seed=n + width, dtype=torch.float64)
        for n, width in ((lengths[0], E), (lengths[1], 7), (lengths[1], 9))
    )
    expected = by_hand(layer, query, key, value)
    torch.testing.assert_close(layer(query, key, value), expected, atol=EXACT, rtol=0)
    inspected = layer.inspect(query, key, value)
    torch.testing.assert_close(inspected.output, expected, atol=EXACT, rtol=0)
    assert inspected.weights.shape == (B, heads[0], *lengths)
    v = layer.v_proj(value).view(B, lengths[1], heads[1], -1).transpose(1, 2)
    joined = inspected.weights @ v.repeat_interleave(heads[0] // heads[1], dim=1)
    torch.testing.assert_close(layer.out_proj(joined.transpose(1, 2).flatten(2)), expected, atol=EXACT, rtol=0)


def test_the_layers_mask_and_the_calls_mask_must_both_attend():
    layer = filled(MultiHeadAttention(E, 4, mask=causal()))
    x = draws(B, T, E)
    keep = torch.tensor([[True] * 5, [True, False, True, False, True]])
    weights = layer.inspect(x, mask=padding(keep)).weights
    expected = torch.ones(T, T).bool().tril() & keep[:, None, None, :]
    assert torch.equal(weights > 0, expected.expand_as(weights))
    table = torch.eye(T).bool()
    assert torch.equal(layer.inspect(x, mask=table).weights, table.expand(B, 4, T, T).float())


def test_a_value_left_out_is_the_key():
    layer = filled(MultiHeadAttention(E, 4))
    query, context = draws(B, T, E), draws(B, 7, E, seed=1)
    assert torch.equal(layer(query, context), layer(query, context, context))
    assert torch.equal(layer(query), layer(query, query, query))


def test_weights_start_as_xavier_uniform_and_biases_as_zero():
    torch.manual_seed(0)  # the layer draws from torch's own generator
    layer = MultiHeadAttention(64, 4, num_kv_heads=2, head_dim=32)
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        bound = (6 / sum(projection.weight.shape)) ** 0.5
        assert 0.98 * bound < projection.weight.abs().max() <= bound
        assert abs(projection.weight.std() - bound / 3**0.5) < 0.05 * bound
        assert not projection.bias.any()


def test_qk_norm_makes_the_size_of_queries_and_keys_irrelevant():
    layer = filled(MultiHeadAttention(E, 4, bias=False, qk_norm=lambda width: nn.RMSNorm(width, eps=0.0)))
    x = draws(B, T, E)
    before = layer(x)
    layer.q_proj.weight.data *= 7
    layer.k_proj.weight.data *= 0.1
    torch.testing.assert_close(layer(x), before, atol=1e-5, rtol=0)  # float32, norms of small vectors
    q, k = (p(x).view(B, T, 4, 6).transpose(1, 2) for p in (layer.q_proj, layer.k_proj))
    scores = layer.q_norm(q) @ layer.k_norm(k).transpose(-2, -1) / 6**0.5
    torch.testing.assert_close(layer.inspect(x).weights, scores.softmax(-1), atol=1e-5, rtol=0)


def test_attention_bias_is_asked_for_positions_and_added_to_the_scores():
    asked = []

    def far_is_dear(queries, keys):
        asked.append((queries.tolist(), keys.tolist()))
        return -0.5 * (queries[:, :, None] - keys[:, None, :]).abs()[:, None].double()

    layer = filled(MultiHeadAttention(E, 4, attention_bias=far_is_dear, dtype=torch.float64))
    x = draws(B, 3, E, dtype=torch.float64)
    bias = -0.5 * (torch.arange(3)[:, None] - torch.arange(3)).abs().double()
    torch.testing.assert_close(layer(x), by_hand(layer, x, x, x, bias=bias), atol=EXACT, rtol=0)
    assert asked == [([[0, 1, 2]], [[0, 1, 2]])]


def test_a_position_object_turns_queries_and_keys_where_they_stand():
    def shift(x, positions):
        return x + positions[:, None, :, None]

    layer = filled(MultiHeadAttention(E, 4, position=shift, dtype=torch.float64))
    x, places = draws(B, 3, E, dtype=torch.float64), torch.tensor([[0, 1, 2], [3, 5, 9]])
    apart = torch.cat([layer(x[:1], positions=places[:1]), layer(x[1:], positions=places[1:])])
    torch.testing.assert_close(layer(x, positions=places), apart, atol=EXACT, rtol=0)
    assert torch.equal(layer(x), layer(x, positions=places[:1]))
    assert not torch.allclose(layer(x, positions=places)[1], layer(x)[1])


def test_a_token_at_a_negative_position_is_padding():
    layer = filled(MultiHeadAttention(E, 4, mask=causal()))
    x = draws(B, 4, E)
    places = torch.tensor([[-1, -1, 0, 1], [0, 1, 2, -1]])
    output = layer(x, positions=places)
    torch.testing.assert_close(output[0, 2:], layer(x[:1, 2:])[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(output[1, :3], layer(x[1:, :3])[0], atol=1e-6, rtol=0)


def test_projections_cut_to_some_of_the_heads_add_up_to_the_whole_layer():
    whole = filled(MultiHeadAttention(E, 4, num_kv_heads=2, bias=False, mask=causal(), dtype=torch.float64))
    x = draws(B, T, E, dtype=torch.float64)
    parts = []
    for rank in range(2):
        part = copy.deepcopy(whole)
        for projection in (part.q_proj, part.k_proj, part.v_proj):
            projection.weight = nn.Parameter(projection.weight.chunk(2)[rank])
        part.out_proj.weight = nn.Parameter(part.out_proj.weight.chunk(2, dim=1)[rank])
        parts.append(part(x, cache=part.new_cache(B, T)))
    torch.testing.assert_close(sum(parts), whole(x), atol=EXACT, rtol=0)


def test_dropout_is_alive_in_training_only_and_is_the_only_randomness():
    layer = filled(MultiHeadAttention(E, 4, dropout=0.5))
    x = draws(B, T, E)
    state = torch.get_rng_state()
    assert torch.equal(layer(x), layer(x))
    assert torch.equal(torch.get_rng_state(), state)
    layer.train()
    assert not torch.equal(layer(x), layer(x))
    torch.set_rng_state(state)
    first = layer(x)
    torch.set_rng_state(state)
    inspected = layer.inspect(x)
    assert torch.equal(inspected.output, first)
    torch.testing.assert_close(inspected.weights.sum(-1), torch.ones(B, 4, T))  # before dropout
    layer.dropout = 0.0
    state = torch.get_rng_state()
    assert torch.equal(layer(x), layer.eval()(x))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
def test_gradients_are_right(heads):
    layer = filled(MultiHeadAttention(8, heads[0], num_kv_heads=heads[1], mask=causal(), dtype=torch.float64))
    x = draws(2, 3, 8, dtype=torch.float64).requires_grad_()
    names, parameters = zip(*layer.named_parameters())

    def run(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (x,))

    assert torch.autograd.gradcheck(run, (x, *parameters))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_errs_at_most_twice_as_much_as_a_plain_run_in_it(dtype):
    layer = filled(MultiHeadAttention(64, 4, mask=causal()).to(dtype))
    x = draws(4, 32, 64).to(dtype)
    exact = by_hand(layer, x, x, x, mask=causal())

    def plain() -> torch.Tensor:
        q, k, v = (p(x).view(4, 32, 4, 16).transpose(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
        scores = (q @ k.transpose(-2, -1) / 4).masked_fill(~torch.ones(32, 32).bool().tril(), float("-inf"))
        return layer.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    error = (layer(x).double() - exact).abs()
    allowed = (plain().double() - exact).abs()
    assert layer(x).dtype == dtype
    assert error.max() <= 2 * allowed.max()
    assert error.mean() <= 2 * allowed.mean()


def test_autocast_is_followed_by_layer_and_cache():
    layer = filled(MultiHeadAttention(E, 4, mask=causal()))
    x = draws(B, T, E)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        full = layer(x)
        cache = layer.new_cache(B, T)
        parts = torch.cat([layer(x[:, :2], cache=cache), layer(x[:, 2:], cache=cache)], dim=1)
        assert torch.equal(layer(x.bfloat16()), full)  # what a layer before this one would hand over
    assert full.dtype == parts.dtype == cache.key.dtype == torch.bfloat16
    torch.testing.assert_close(parts, full, atol=0.05, rtol=0)  # two roundings of 8 bits at values near 1


def test_it_can_be_saved_copied_and_made_on_the_meta_device(tmp_path):
    from safetensors.torch import load_file, save_file

    layer = filled(MultiHeadAttention(E, 4, num_kv_heads=2, qk_norm=nn.RMSNorm, mask=causal() & sliding_window(left=2)))
    x = draws(B, T, E)
    save_file(layer.state_dict(), tmp_path / "layer.safetensors")
    empty = MultiHeadAttention(E, 4, num_kv_heads=2, qk_norm=nn.RMSNorm, mask=layer.mask, device="meta")
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert empty(x.to("meta")).shape == x.shape
    empty.to_empty(device="cpu").load_state_dict(load_file(tmp_path / "layer.safetensors"))
    assert torch.equal(empty.eval()(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert sorted(layer.state_dict()) == [
        *("k_norm.weight", "k_proj.bias", "k_proj.weight", "out_proj.bias", "out_proj.weight"),
        *("q_norm.weight", "q_proj.bias", "q_proj.weight", "v_proj.bias", "v_proj.weight"),
    ]


@pytest.mark.parametrize("shape", [(0, 3, E), (2, 0, E), (1, 1, E)])
def test_empty_batches_and_empty_or_single_sequences_have_their_shape(shape):
    layer = filled(MultiHeadAttention(E, 4, mask=causal()))
    output, weights = layer.inspect(torch.zeros(shape))
    assert output.shape == shape
    assert weights.shape == (shape[0], 4, shape[1], shape[1])


def test_it_prints_what_it_is():
    layer = MultiHeadAttention(E, 4, num_kv_heads=2, dropout=0.1, mask=causal(), scale=0.5)
    assert layer.extra_repr() == (
        "embed_dim=24, num_heads=4, num_kv_heads=2, head_dim=6, value_head_dim=6, dropout=0.1, mask=causal(), scale=0.5"
    )


def test_what_the_layer_is_given_is_left_as_it_was():
    layer = filled(MultiHeadAttention(E, 4, mask=causal()))
    x, keep, places = draws(B, T, E), torch.ones(B, T).bool(), torch.arange(T)[None]
    before = x.clone(), keep.clone(), places.clone()
    with torch.no_grad():
        layer(x, mask=padding(keep), positions=places, cache=layer.new_cache(B, T))
    assert all(torch.equal(now, then) for now, then in zip((x, keep, places), before))
