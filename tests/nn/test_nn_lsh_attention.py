"""Reformer's attention as a layer: exact where buckets cover everything, the same twice, and honest about its error."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from regard.core import reference
from regard.core.errors import MaskError, ShapeError
from regard.mask import causal, padding, sliding_window
from regard.nn import LSHAttention, TransformerBlock

EXACT = 1e-11  # float64: the same sums in another order
E, HEADS, T = 24, 4, 20


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_with(**options) -> LSHAttention:
    layer = LSHAttention(E, HEADS, **options).double().eval()
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / 2
    layer.redraw(torch.Generator().manual_seed(1))
    return layer.double()


SMALL = {"num_hashes": 2, "num_buckets": 4, "bucket_size": 4}


@pytest.mark.parametrize("is_causal", [False, True])
def test_up_to_the_size_of_a_bucket_it_is_exact_attention_with_shared_queries_and_keys(is_causal):
    layer, x = layer_with(causal=is_causal, bucket_size=T, head_dim=(6, 5)), draws(2, T, E)
    keep = torch.arange(T) < torch.tensor([[T], [7]])
    shared = layer.qk_proj(x).unflatten(2, (HEADS, 6)).transpose(1, 2)
    value = layer.v_proj(x).unflatten(2, (HEADS, 5)).transpose(1, 2)
    attend = keep[:, None, None].expand(2, 1, T, T) & ~torch.eye(T, dtype=torch.bool)
    attend = attend.tril() if is_causal else attend
    attend = attend.clone()
    attend[:, :, 0, 0] |= is_causal
    heads = reference.attention(shared, normalize(shared, dim=-1), value, mask=attend)
    expected = layer.out_proj(heads.transpose(1, 2).flatten(2))
    output, weights = layer.inspect(x, mask=padding(keep))
    torch.testing.assert_close(output[keep], expected[keep], atol=EXACT, rtol=EXACT)
    assert torch.equal(output[~keep], layer.out_proj.bias.expand_as(output[~keep]))
    reals = reference.attention_weights(shared, normalize(shared, dim=-1), mask=attend) * keep[:, None, :, None]
    torch.testing.assert_close(weights, reals, atol=EXACT, rtol=EXACT)
    assert layer.error(x, mask=padding(keep)).max() < 1e-6


def test_the_error_falls_as_more_rounds_look():
    x = draws(1, 200, E)
    errors = [layer_with(num_hashes=n, num_buckets=8, bucket_size=8).error(x).mean() for n in (1, 4, 16)]
    assert errors[0] > errors[1] > errors[2] > 1e-3
    assert layer_with(**SMALL).error(x).shape == (HEADS,)


def test_the_same_input_gives_the_same_output_until_the_rotations_are_drawn_anew():
    layer, x = layer_with(**SMALL), draws(1, T, E)
    first = layer(x)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer.train()(x), first)
    layer.redraw()
    layer.double()
    assert not torch.equal(layer.eval()(x), first)


def test_rotations_are_saved_and_drawn_anew_in_training_when_that_is_due():
    layer = LSHAttention(E, HEADS, redraw_every=2, **SMALL)
    other = LSHAttention(E, HEADS, **SMALL)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.rotations, layer.rotations)
    x, seen = draws(1, T, E).float(), []
    for _ in range(5):
        layer(x)
        seen.append(layer.rotations)
    assert seen[0] is seen[1]
    assert torch.equal(seen[1], other.rotations)
    assert seen[2] is seen[3]
    assert not torch.equal(seen[1], seen[2])
    assert not torch.equal(seen[3], seen[4])


def test_a_mask_of_the_call_makes_it_causal_too():
    layer, x = layer_with(**SMALL), draws(2, T, E)
    assert torch.equal(layer(x, mask=causal()), layer_with(causal=True, **SMALL)(x))
    assert not torch.equal(layer(x, mask=causal()), layer(x))


@pytest.mark.parametrize("is_causal", [False, True])
def test_weights_are_of_few_tokens_and_sum_to_one(is_causal):
    weights = layer_with(causal=is_causal, **SMALL).inspect(draws(1, 60, E)).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, HEADS, 60, dtype=torch.float64))
    most = 4 * 3 if is_causal else 8 * 2  # of three rounds of 4, of two rounds of two chunks
    assert int((weights > 0).sum(dim=-1).max()) <= most
    if is_causal:
        assert not weights.triu(1).any()


def test_it_mixes_in_a_transformer_block():
    block = TransformerBlock(E, layer_with(causal=True, **SMALL)).double()
    assert block(draws(2, T, E), mask=padding(lengths=[T, 3])).shape == (2, T, E)


def test_what_does_not_fit_is_refused_with_the_numbers():
    layer, x = layer_with(**SMALL), draws(2, T, E)
    with pytest.raises(
        MaskError, match=r"LSHAttention never writes out a query with a key, so it cannot apply sliding"
    ):
        layer(x, mask=sliding_window(2, 2))
    with pytest.raises(ShapeError, match="bucket_size is a number of tokens, at least 1; got 0"):
        LSHAttention(E, HEADS, bucket_size=0)
    with pytest.raises(ShapeError, match="1 or an even number of buckets"):
        LSHAttention(E, HEADS, num_buckets=7)
    with pytest.raises(ShapeError, match=r"this layer takes \(batch, length, 24\)"):
        layer(draws(2, T, 5))
    assert isinstance(layer, nn.Module)
