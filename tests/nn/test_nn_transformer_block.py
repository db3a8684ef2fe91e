"""The Transformer block and its feed-forward: the formulas, any mixer, decoding, and what is refused."""

import pytest
import torch
from torch import nn

from regard.core.errors import CacheError, ShapeError
from regard.mask import causal, padding
from regard.nn import FeedForward, GatedFeedForward, MultiHeadAttention, TransformerBlock
from regard.position import Rotary

EXACT = 1e-12  # float64, the same sums
FLOAT32 = 1e-5  # two orders of the same sums, in float32
B, T, S, E = 2, 5, 7, 16


def draws(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def filled(module: nn.Module) -> nn.Module:
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed).to(parameter.dtype) / parameter.shape[-1] ** 0.5
    return module.eval()


def attention(**options) -> MultiHeadAttention:
    return MultiHeadAttention(E, 4, dtype=torch.float64, **options)


def block(mixer: nn.Module, **options) -> TransformerBlock:
    return filled(TransformerBlock(E, mixer, dtype=torch.float64, **options))


def test_norm_comes_before_each_branch_unless_it_is_chosen_after_the_sum():
    x, context = draws(B, T, E, seed=1), draws(B, S, E, seed=2)
    before = block(attention(mask=causal()), cross=attention())
    a = x + before.mixer(before.mixer_norm(x))
    b = a + before.cross(before.cross_norm(a), context)
    c = b + before.feed_forward(before.feed_forward_norm(b))
    torch.testing.assert_close(before(x, context), c, atol=EXACT, rtol=0)
    after = block(attention(mask=causal()), cross=attention(), norm_first=False)
    a = after.mixer_norm(x + after.mixer(x))
    b = after.cross_norm(a + after.cross(a, context))
    c = after.feed_forward_norm(b + after.feed_forward(b))
    torch.testing.assert_close(after(x, context), c, atol=EXACT, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
def test_it_equals_torchs_encoder_layer_with_the_same_weights(norm_first):
    theirs = filled(nn.TransformerEncoderLayer(E, 4, 4 * E, batch_first=True, norm_first=norm_first, activation="gelu"))
    ours = TransformerBlock(E, MultiHeadAttention(E, 4), norm_first=norm_first).eval()
    packed = theirs.self_attn
    for projection, weight, bias in zip(
        (ours.mixer.q_proj, ours.mixer.k_proj, ours.mixer.v_proj),
        packed.in_proj_weight.chunk(3),
        packed.in_proj_bias.chunk(3),
    ):
        projection.load_state_dict({"weight": weight, "bias": bias})
    for mine, other in (
        (ours.mixer.out_proj, packed.out_proj),
        (ours.mixer_norm, theirs.norm1),
        (ours.feed_forward_norm, theirs.norm2),
        (ours.feed_forward.up, theirs.linear1),
        (ours.feed_forward.down, theirs.linear2),
    ):
        mine.load_state_dict(other.state_dict())
    x, keep = draws(B, T, E, dtype=torch.float32), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected = theirs(x, src_key_padding_mask=~keep)
    torch.testing.assert_close(ours(x, mask=padding(keep))[keep], expected[keep], atol=FLOAT32, rtol=0)


def test_masks_go_to_the_branch_they_are_for():
    layer = block(attention(), cross=attention())
    x, context = draws(B, T, E, seed=1), draws(B, S, E, seed=2)
    keep, seen = torch.tensor([[True] * 3 + [False] * 2]), torch.tensor([[True] * 4 + [False] * 3])
    output = layer(x, context, mask=padding(keep), context_mask=padding(seen))
    torch.testing.assert_close(output[:, :3], layer(x[:, :3], context[:, :4]), atol=EXACT, rtol=0)


def test_any_module_that_keeps_the_shape_can_mix():
    mixer = nn.Linear(E, E, dtype=torch.float64)
    layer = block(mixer)
    x = draws(B, T, E)
    a = x + mixer(layer.mixer_norm(x))
    torch.testing.assert_close(layer(x), a + layer.feed_forward(layer.feed_forward_norm(a)), atol=EXACT, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
def test_decoding_a_stack_from_caches_equals_the_full_forward(norm_first):
    stack = [
        block(attention(mask=causal(), position=Rotary(4, pairing="half")), norm_first=norm_first) for _ in range(3)
    ]
    x = draws(B, T, E)
    caches = [layer.new_cache(B, T) for layer in stack]
    parts = []
    for start, end in ((0, 2), (2, 3), (3, 5)):
        tokens = x[:, start:end]
        for layer, cache in zip(stack, caches):
            tokens = layer(tokens, cache=cache)
        parts.append(tokens)
    full = x
    for layer in stack:
        full = layer(full)
    torch.testing.assert_close(torch.cat(parts, dim=1), full, atol=EXACT, rtol=0)


def test_positions_go_to_the_mixer():
    layer = block(attention(mask=causal(), position=Rotary(4, pairing="half")))
    x = draws(1, 3, E)
    places = torch.tensor([[0, 2, 7]])
    a = x + layer.mixer(layer.mixer_norm(x), positions=places)
    expected = a + layer.feed_forward(layer.feed_forward_norm(a))
    torch.testing.assert_close(layer(x, positions=places), expected, atol=EXACT, rtol=0)
    assert not torch.allclose(layer(x), expected)


def test_dropout_is_alive_in_training_only():
    layer = block(attention(), dropout=0.5)
    x = draws(B, T, E)
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_feed_forward_is_its_formula():
    x = draws(B, T, E)
    plain = filled(FeedForward(E, 20, activation=torch.relu, dtype=torch.float64))
    up = torch.relu(x @ plain.up.weight.T + plain.up.bias)
    torch.testing.assert_close(plain(x), up @ plain.down.weight.T + plain.down.bias, atol=EXACT, rtol=0)
    gated = filled(GatedFeedForward(E, dtype=torch.float64))
    assert gated.up.weight.shape == (48, E)  # 8/3 of 16, up to a multiple of 8
    gate = x @ gated.gate.weight.T
    hidden = gate / (1 + torch.exp(-gate)) * (x @ gated.up.weight.T)
    torch.testing.assert_close(gated(x), hidden @ gated.down.weight.T, atol=EXACT, rtol=0)


def test_a_block_can_be_made_on_the_meta_device():
    layer = TransformerBlock(E, MultiHeadAttention(E, 4, device="meta"), device="meta")
    assert all(parameter.is_meta for parameter in layer.parameters())
    assert layer(torch.zeros(B, T, E, device="meta")).shape == (B, T, E)


REFUSED = {
    "another width": (
        lambda: block(attention())(draws(B, T, 8)),
        (ShapeError, "x has shape (2, 5, 8); this block takes (batch, length, 16)"),
    ),
    "a context that nobody reads": (
        lambda: block(attention())(draws(B, T, E), draws(B, S, E)),
        (ShapeError, "this block has no cross-attention; build it with cross=..., or leave the context out"),
    ),
    "the mask of a context that nobody reads": (
        lambda: block(attention())(draws(B, T, E), context_mask=causal()),
        (ShapeError, "this block has no cross-attention; build it with cross=..., or leave the context out"),
    ),
    "no context": (
        lambda: block(attention(), cross=attention())(draws(B, T, E)),
        (ShapeError, "this block has cross-attention; give it a context (batch, length, width)"),
    ),
    "the cache of a mixer that keeps none": (
        lambda: block(nn.Linear(E, E)).new_cache(1, 2),
        (CacheError, "Linear has no new_cache(batch, length); decode with a mixer that has one"),
    ),
    "no hidden channels": (
        lambda: FeedForward(E, 0),
        (ShapeError, "embed_dim=16 and hidden_dim=0 must both be at least 1"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_meant_is_refused_with_the_numbers_and_the_way_out(name):
    call, (kind, words) = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words
