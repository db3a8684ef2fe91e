"""What a layer with a cache refuses, word by word; a refused call leaves the cache as it was."""

import pytest
import torch

from regard.core.errors import CacheError, MaskError, ShapeError
from regard.mask import causal, documents, padding, sliding_window
from regard.nn import MultiHeadAttention

EXACT = 1e-12  # float64: the same sums in another order
E = 24


def layer_with(mask=None) -> MultiHeadAttention:
    layer = MultiHeadAttention(E, 4, num_kv_heads=2, mask=mask, dtype=torch.float64).eval()
    for seed, parameter in enumerate(layer.parameters()):
        draw = torch.Generator().manual_seed(seed)
        parameter.data = torch.randn(*parameter.shape, generator=draw, dtype=torch.float64) / 4
    return layer


x = torch.zeros(1, 2, E, dtype=torch.float64)


def filled_cache(layer: MultiHeadAttention, tokens: int = 2, **options):
    cache = layer.new_cache(1, 5)
    layer(torch.zeros(1, tokens, E, dtype=torch.float64), mask=causal(), cache=cache, **options)
    return cache


REFUSED = {  # layer's mask, what is handed to the second call -> exception, words
    "no mask and two tokens": (
        (None, {}),
        (
            MaskError,
            "2 new tokens at once would see each other's future, for nothing makes them causal; "
            "give mask=causal(), or one token at a time",
        ),
    ),
    "a window that looks ahead": (
        (None, {"mask": sliding_window(2, 1)}),
        (
            MaskError,
            "sliding_window(left=2, right=1) looks 1 tokens ahead, and a cache holds only the past; add causal(), "
            "or leave the cache out",
        ),
    ),
    "padding of the new tokens only": (
        (causal(), {"mask": padding(torch.ones(1, 2).bool()), "positions": torch.tensor([[2, 3]])}),
        (
            ShapeError,
            "keep of padding() covers 2 tokens; the cache has taken 2 and 2 come, so it must be (1, 4)",
        ),
    ),
    "documents and positions": (
        (causal(), {"mask": documents(torch.zeros(1, 4).long()), "positions": torch.tensor([[2, 3]])}),
        (
            MaskError,
            "documents(<(1, 4)>) with a cache counts tokens as they came; leave positions out, and hide padding with "
            "padding(keep)",
        ),
    ),
    "positions that stand still": (
        (causal(), {"positions": torch.tensor([[2, 2]])}),
        (
            ShapeError,
            "positions must increase within a sample: sample 0 has 2 and later 2; give padding tokens the position -1, "
            "and each sequence its own row",
        ),
    ),
    "a bool tensor and positions": (
        (causal(), {"mask": torch.ones(2, 4).bool(), "positions": torch.tensor([[2, 3]])}),
        (
            MaskError,
            "dense(<(2, 4)>) with a cache counts tokens as they came; leave positions out, and hide padding with "
            "padding(keep)",
        ),
    ),
    "padding and positions for a rolling cache that had none": (
        (
            causal() & sliding_window(left=2),
            {"mask": padding(torch.ones(1, 4).bool()), "positions": x[0, :, :1].T.long()},
        ),
        (
            MaskError,
            "the rolling cache has taken 2 tokens without positions, so padding() cannot be told from positions now; "
            "give positions from the first token on, or never",
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_says_why_and_leaves_the_cache_as_it_was(name):
    (mask, options), (kind, words) = REFUSED[name]
    layer = layer_with(mask)
    cache = filled_cache(layer)
    before = cache.seen, cache.positions.clone(), cache.aligned, cache.key.clone()
    with pytest.raises(kind) as caught:
        layer(x, cache=cache, **options)
    assert str(caught.value) == words
    assert (cache.seen, cache.aligned) == (before[0], before[2])
    assert torch.equal(cache.positions, before[1])
    assert torch.equal(cache.key, before[3])


def test_padding_that_is_too_short_is_refused_without_positions_too():
    layer = layer_with(causal())
    cache = filled_cache(layer)
    with pytest.raises(ShapeError, match=r"keep of padding\(\) covers 2 keys, but the call has 4"):
        layer(x, mask=padding(torch.ones(1, 2).bool()), cache=cache)
    assert cache.seen == 2

    rolled = layer_with(causal() & sliding_window(left=1))
    cache = filled_cache(rolled)
    with pytest.raises(ShapeError, match=r"keep of padding\(\) covers 3 keys, but 4 are stored"):
        rolled(x, mask=padding(torch.ones(1, 3).bool()), cache=cache)
    assert cache.seen == 2


def test_a_cache_of_another_batch_is_refused_before_anything_is_computed():
    layer = layer_with(causal())
    three, places = x.expand(3, 2, E), torch.tensor([[0, 1]] * 3)
    with pytest.raises(CacheError, match="the cache holds 2 sequences and got 3; make one with batch=3"):
        layer(three, positions=places, cache=layer.new_cache(2, 5))


def test_a_rolling_cache_refuses_a_mask_that_sees_further_than_it_keeps():
    narrow, wide = layer_with(causal() & sliding_window(left=2)), layer_with(causal() & sliding_window(left=3))
    with pytest.raises(CacheError) as caught:
        wide(x, cache=narrow.new_cache(1, 9))
    assert str(caught.value) == (
        "the cache keeps the latest 3 keys and the mask sees back over 4 keys; give the layer "
        "causal() & sliding_window(left=2), or take a cache with rolling=False"
    )
    with pytest.raises(CacheError, match="and the mask sees all that came before; give"):
        layer_with(causal())(x, cache=narrow.new_cache(1, 9))


def test_a_rolling_cache_refuses_to_go_back_to_keys_it_has_let_go_of():
    layer = layer_with(causal() & sliding_window(left=2))
    cache = layer.new_cache(1, 9)
    layer(x.expand(1, 2, E), cache=cache)
    layer(x, positions=torch.tensor([[1, 2]]), cache=cache)  # nothing is lost yet
    layer(x, cache=cache)
    with pytest.raises(CacheError) as caught:
        layer(x[:, :1], positions=torch.tensor([[3]]), cache=cache)
    assert str(caught.value) == (
        "the cache keeps the latest 3 positions; sample 0 stands at 4 and cannot go back to 3; go on, start over at 0, "
        "or take a cache with rolling=False"
    )
    fresh = layer(x, positions=torch.tensor([[0, 1]]), cache=cache)
    torch.testing.assert_close(fresh, layer(x), atol=EXACT, rtol=0)
