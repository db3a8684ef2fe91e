"""Linear attention and Performer as layers: what they compute, what they may be told to hide, decoding, drawing anew."""

import copy
import re

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from regard.core import reference
from regard.core.errors import CacheError, DtypeError, MaskError, ShapeError
from regard.mask import causal, dense, documents, padding, sliding_window
from regard.nn import FavorAttention, LinearAttention, TransformerBlock

EXACT = 1e-11  # float64: the same sums in another order
E, HEADS, T = 24, 4, 9


def draws(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def drawn(layer: nn.Module) -> nn.Module:
    """In float64 and eval mode, with fixed parameters and directions."""
    layer = layer.double().eval()
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / 4
    if isinstance(layer, FavorAttention):
        layer.redraw(torch.Generator().manual_seed(1))
        layer.double()
    return layer


LAYERS = {
    "elu+1": lambda **o: drawn(LinearAttention(E, HEADS, **o)),
    "relu": lambda **o: drawn(LinearAttention(E, HEADS, feature_map="relu", **o)),
    "function": lambda **o: drawn(LinearAttention(E, HEADS, feature_map=torch.exp, **o)),
    "favor": lambda **o: drawn(FavorAttention(E, HEADS, **o)),
}
every = pytest.mark.parametrize("kind", LAYERS)


def phi_of(kind: str, layer):
    if kind == "favor":

        def random(x):
            x = x * x.shape[-1] ** -0.25
            return (x @ layer.directions.mT - x.square().sum(dim=-1, keepdim=True) / 2).exp()

        return random
    return {"elu+1": lambda x: nn.functional.elu(x) + 1, "relu": torch.relu, "function": torch.exp}[kind]


def written_out(kind, layer, query, key=None, value=None, *, attend=None):
    """The layer, its weights as a matrix (B, H, T, S); attend: bool, broadcastable to it."""
    key = query if key is None else key
    value = key if value is None else value
    q, k, v = layer.q_proj(query), layer.k_proj(key), layer.v_proj(value)
    q = q.unflatten(2, (-1, layer.head_dim)).transpose(1, 2)
    k = k.unflatten(2, (-1, layer.head_dim)).transpose(1, 2).repeat_interleave(HEADS // layer.num_kv_heads, dim=1)
    v = v.unflatten(2, (-1, layer.value_head_dim)).transpose(1, 2).repeat_interleave(HEADS // layer.num_kv_heads, dim=1)
    phi = phi_of(kind, layer)
    weights = phi(q) @ phi(k).mT
    weights = weights if attend is None else weights * attend
    total = weights.sum(dim=-1, keepdim=True)
    weights = torch.where(total == 0, 0.0, weights / torch.where(total == 0, 1.0, total))
    return layer.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


@every
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2, "head_dim": (6, 5)}, {"num_kv_heads": 1, "bias": False}])
def test_the_layer_is_its_projections_around_the_weights_written_out(kind, is_causal, options):
    layer, x = LAYERS[kind](causal=is_causal, **options), draws(2, T, E)
    keep = torch.arange(T) < torch.tensor([[T], [4]])
    for mask, shown in ((None, torch.ones(2, 1, 1, T, dtype=torch.bool)), (padding(keep), keep[:, None, None])):
        attend = shown.expand(2, 1, T, T).tril() if is_causal else shown
        output, weights = written_out(kind, layer, x, attend=attend)
        torch.testing.assert_close(layer(x, mask=mask), output, atol=EXACT, rtol=EXACT)
        seen = layer.inspect(x, mask=mask)
        torch.testing.assert_close(seen.output, output, atol=EXACT, rtol=EXACT)
        torch.testing.assert_close(seen.weights, weights, atol=EXACT, rtol=EXACT)


@every
def test_keys_and_values_may_come_from_elsewhere_in_widths_of_their_own(kind):
    layer = LAYERS[kind](key_dim=10, value_dim=7)
    query, key, value = draws(2, 5, E), draws(2, 8, 10, seed=1), draws(2, 8, 7, seed=2)
    lengths = torch.tensor([8, 0])
    attend = (torch.arange(8) < lengths[:, None])[:, None, None]
    expected, _ = written_out(kind, layer, query, key, value, attend=attend)
    output = layer(query, key, value, mask=padding(lengths=lengths))
    torch.testing.assert_close(output, expected, atol=EXACT, rtol=EXACT)
    assert torch.equal(output[1], layer.out_proj.bias.expand(5, -1))  # who sees nothing gets out_proj of zeros


def test_the_same_mask_said_in_four_ways_is_the_same():
    layer, x = LAYERS["elu+1"](), draws(2, T, E)
    keep = torch.arange(T) < torch.tensor([[T], [4]])
    expected = LAYERS["elu+1"](causal=True)(x, mask=padding(keep))
    for mask in (
        causal() & padding(keep),
        padding(lengths=[T, 4]) & causal(),
        causal() & dense(keep[:, None, None]),
        causal() & sliding_window(right=3) & padding(keep),
    ):
        assert torch.equal(layer(x, mask=mask), expected)
    assert torch.equal(layer(x, mask=keep[:, None, None]), layer(x, mask=padding(keep)))


def test_with_a_cache_a_bool_tensor_covers_all_the_keys_so_far():
    layer, x = LAYERS["elu+1"](causal=True), draws(2, T, E)
    keep = torch.rand(2, 1, 1, T, generator=torch.Generator().manual_seed(3)) < 0.6
    cache = layer.new_cache(2)
    parts = [layer(x[:, :4], mask=keep[..., :4], cache=cache), layer(x[:, 4:], mask=keep, cache=cache)]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, mask=keep), atol=EXACT, rtol=EXACT)
    with pytest.raises(ShapeError, match="the mask covers 2 keys, but there are 10 so far; it must cover all of them"):
        layer(x[:, :1], mask=keep[..., :2], cache=cache)
    with pytest.raises(ShapeError, match=r"keep of padding\(\) covers 9 keys, but the call has 10"):
        layer(x[:, :1], mask=padding(keep[:, 0, 0]), cache=cache)


@pytest.mark.parametrize(
    "mask",
    [
        sliding_window(2, 2),
        causal() & sliding_window(left=3),
        causal(offset=1),
        documents(torch.zeros(T, dtype=torch.int64)),
        torch.ones(T, T, dtype=torch.bool).tril(),
        ~causal(),
    ],
)
def test_a_mask_that_needs_the_weights_is_refused_with_what_is_possible(mask):
    layer = LAYERS["favor"]()
    with pytest.raises(MaskError) as refused:
        layer(draws(2, T, E), mask=mask)
    assert "FavorAttention never writes out a query with a key, so it cannot apply" in str(refused.value)
    assert "it takes causal(), padding(keep), both joined with &, or a bool tensor (B, 1, 1, S)" in str(refused.value)
    assert str(refused.value).endswith("MultiHeadAttention takes every mask")


def test_what_does_not_fit_is_refused_with_the_numbers():
    layer = LAYERS["elu+1"](causal=True)
    x = draws(2, T, E)
    with pytest.raises(MaskError, match="a causal LinearAttention got 9 queries and 5 keys, and cannot tell"):
        layer(x, draws(2, 5, E))
    with pytest.raises(ShapeError, match=r"keep of padding\(\) covers 4 keys, but the call has 9"):
        layer(x, mask=padding(torch.ones(2, 4, dtype=torch.bool)))
    with pytest.raises(ShapeError, match="a value came without a key"):
        layer(x, value=x)
    with pytest.raises(ShapeError, match="chunk is a number of tokens, at least 1; got 0"):
        LinearAttention(E, HEADS, chunk=0)
    with pytest.raises(
        DtypeError, match=r"feature_map must be one of 'elu\+1', 'relu', or a function of .*got 'softmax'"
    ):
        LinearAttention(E, HEADS, feature_map="softmax")


def test_a_feature_map_with_weights_is_part_of_the_layer_and_learns():
    layer = LinearAttention(E, HEADS, feature_map=nn.Sequential(nn.Linear(6, 12), nn.Softplus()), causal=True)
    assert any(name.startswith("feature_map") for name in layer.state_dict())
    layer(draws(2, T, E, dtype=torch.float32)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@every
@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    side=st.sampled_from(["none", "left", "right"]),
    kv_heads=st.sampled_from([1, 2, 4]),
)
def test_decoding_in_any_pieces_equals_the_full_forward(kind, sizes, side, kv_heads):
    layer, length = LAYERS[kind](causal=True, num_kv_heads=kv_heads), sum(sizes)
    x, keep = draws(2, length, E), torch.arange(length) < torch.tensor([[length], [max(1, length - 3)]])
    keep = keep.flip(1) if side == "left" else torch.ones_like(keep) if side == "none" else keep
    cache, parts = layer.new_cache(2), []
    for size in sizes:
        end = cache.seen + size
        mask = None if side == "none" else padding(keep[:, :end])
        parts.append(layer(x[:, cache.seen : end], mask=mask, cache=cache))
    expected = layer(x, mask=padding(keep))
    torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=EXACT, rtol=EXACT)
    assert cache.seen == length


def test_a_cache_is_reordered_and_emptied_and_a_refusal_leaves_it_as_it_was():
    layer, x = LAYERS["favor"](causal=True), draws(3, T, E)
    cache = layer.new_cache(3, T)
    layer(x[:, :5], cache=cache)
    before = cache.state
    for wrong, text in (
        (lambda: layer(x[:2, :1], cache=cache), "the cache holds 3 sequences and got 2; make one with batch=2"),
        (lambda: layer(x, x, cache=cache), "a cache is for self-attention"),
        (
            lambda: LAYERS["favor"](causal=True, num_kv_heads=2)(x[:, 5:6], cache=cache),
            "by a layer of 4 key heads with values of width 6; got 2 heads and width 6",
        ),
        (lambda: LAYERS["favor"](causal=True)(x[:, 5:6], cache=cache), "drawn anew after the cache took 5 tokens in"),
    ):
        with pytest.raises(CacheError, match=re.escape(text)):
            wrong()
        assert cache.state is before
        assert cache.seen == 5
    index = torch.tensor([2, 0, 0, 1])
    cache.reorder(index)
    expected = layer(x[index])[:, 5:]
    torch.testing.assert_close(layer(x[index, 5:], cache=cache), expected, atol=EXACT, rtol=EXACT)
    with pytest.raises(ShapeError, match="one sample number for each new sample"):
        cache.reorder(torch.tensor([0.0]))
    cache.reset()
    assert (cache.seen, cache.state) == (0, None)
    assert repr(cache) == "LinearCache(0 tokens; batch=4, empty)"
    torch.testing.assert_close(layer(x[index, :2], cache=cache), layer(x[index, :2]), atol=EXACT, rtol=EXACT)


def test_a_layer_that_is_not_causal_decodes_one_token_at_a_time_only():
    layer, x = LAYERS["elu+1"](), draws(1, 4, E)
    cache = layer.new_cache(1)
    with pytest.raises(MaskError, match="3 new tokens at once would see each other's future"):
        layer(x[:, :3], cache=cache)
    steps = [layer(x[:, t : t + 1], cache=cache) for t in range(4)]
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, mask=causal()), atol=EXACT, rtol=EXACT)


def test_it_mixes_in_a_transformer_block_and_decodes_there():
    block = TransformerBlock(E, LAYERS["elu+1"](causal=True)).double().eval()
    x = draws(2, T, E)
    cache = block.new_cache(2, T)
    parts = [block(x[:, t : t + 1], cache=cache) for t in range(T)]
    torch.testing.assert_close(torch.cat(parts, dim=1), block(x), atol=EXACT, rtol=EXACT)


@every
def test_no_bit_of_an_output_depends_on_a_later_token(kind):
    layer = LAYERS[kind](causal=True).float()
    x = draws(1, 70, E, dtype=torch.float32)
    before = layer(x)
    for t in (0, 30, 63, 64, 68):
        changed = x.clone()
        changed[:, t + 1 :] = 1000 * draws(1, 69 - t, E, seed=t, dtype=torch.float32)
        assert torch.equal(layer(changed)[:, : t + 1], before[:, : t + 1])


def test_directions_are_saved_and_stay_in_eval_and_are_drawn_anew_when_due():
    layer = FavorAttention(E, HEADS, redraw_every=3)
    x = draws(1, 5, E, dtype=torch.float32)
    other = FavorAttention(E, HEADS)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), layer.eval()(x))
    for _ in range(10):
        layer(x)
    assert torch.equal(layer.directions, other.directions)
    layer.train()
    seen = []
    for _ in range(9):
        layer(x)
        seen.append(layer.directions)
    first, second, third = seen[0], seen[3], seen[6]
    assert torch.equal(first, other.directions)
    assert all(a is b for a, b in zip(seen, [first] * 3 + [second] * 3 + [third] * 3))
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    layer.redraw(torch.Generator().manual_seed(4))
    other.redraw(torch.Generator().manual_seed(4))
    assert torch.equal(layer.directions, other.directions)


def test_a_graph_outlives_a_redraw():
    layer = FavorAttention(E, HEADS)
    output = layer(draws(1, 5, E, dtype=torch.float32))
    layer.redraw()
    output.sum().backward()  # a buffer changed in place would be refused here


def test_redraws_that_cannot_be_counted_are_refused():
    with pytest.raises(ShapeError, match="redraw_every must be None or at least 1, got 0"):
        FavorAttention(E, HEADS, redraw_every=0)
    layer = FavorAttention(E, HEADS, redraw_every=2)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"which a compiled graph cannot; build the layer with redraw_every=None"
    ):
        compiled(draws(1, 5, E, dtype=torch.float32))


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_error_is_the_distance_to_softmax_attention_and_shrinks_with_more_features(is_causal):
    few, many = (drawn(FavorAttention(E, HEADS, num_features=n, causal=is_causal)) for n in (8, 4096))
    x, keep = draws(2, T, E) / 2, torch.arange(T) < torch.tensor([[T], [4]])
    errors = few.error(x, mask=padding(keep))
    assert errors.shape == (HEADS,)
    assert (many.error(x, mask=padding(keep)) < errors / 3).all()
    q, k, v = (p(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for p in (few.q_proj, few.k_proj, few.v_proj))
    mask = causal() & padding(keep) if is_causal else padding(keep)
    exact = reference.attention(q, k, v, mask=mask)
    plain = copy.deepcopy(few)
    plain.out_proj = nn.Identity()
    estimate = plain(x, mask=padding(keep)).unflatten(2, (HEADS, -1)).transpose(1, 2)
    expected = (estimate - exact).square().sum((0, 2, 3)).sqrt() / exact.square().sum((0, 2, 3)).sqrt()
    torch.testing.assert_close(errors.double(), expected, atol=1e-5, rtol=0)
