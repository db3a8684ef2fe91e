"""The key-value cache by itself: what it returns, what it forgets, what it refuses."""

import copy

import pytest
import torch
from hypothesis import given, strategies as st

from regard.core.errors import CacheError, DtypeError, ShapeError
from regard.nn.kv_cache import KVCache

H, D, DV = 2, 4, 3


def tokens(batch: int, *numbers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys (B, H, T, D) and values (B, H, T, DV) that say which token they are: token n is full of n."""
    row = torch.tensor(numbers, dtype=torch.float32)[None, None, :, None]
    return row.expand(batch, H, -1, D).clone(), row.expand(batch, H, -1, DV).clone() + 0.5


def cache_of(batch: int = 1, length: int = 6, **options) -> KVCache:
    return KVCache(batch, H, length, D, DV, **options)


def seen(held, sample: int = 0) -> dict[int, float]:
    """Position -> key number, of what is not empty, and that values and keys belong together."""
    stand = held.stand.key_positions.expand(held.key.shape[0], -1)[sample]
    numbers = held.key[sample, 0, :, 0]
    torch.testing.assert_close(held.value[sample, 0, stand >= 0, 0], numbers[stand >= 0] + 0.5, rtol=0, atol=0)
    return {int(p): float(n) for p, n in zip(stand, numbers) if p >= 0}


@given(chunks=st.lists(st.integers(0, 4), min_size=1, max_size=5), grad=st.booleans())
def test_tokens_come_back_in_order_for_any_chunking(chunks, grad):
    cache = cache_of(batch=2, length=20)
    come = 0
    for size in chunks:
        with torch.set_grad_enabled(grad):
            held = cache.append(*tokens(2, *range(come, come + size)))
        assert held.stand.offset == come
        assert held.stand.query_positions.tolist() == [list(range(come, come + size))]
        come += size
        assert seen(held, 1) == {n: n for n in range(come)}
        assert cache.lengths.tolist() == [come, come]


@given(
    chunks=st.lists(st.integers(0, 7), min_size=1, max_size=8),
    window=st.integers(1, 5),
    grad=st.booleans(),
    said=st.booleans(),
)
def test_a_rolling_cache_shows_each_token_its_window_for_any_chunking(chunks, window, grad, said):
    cache = cache_of(length=window, rolling=True)
    come = 0
    for size in chunks:
        numbers = range(come, come + size)
        with torch.set_grad_enabled(grad):
            held = cache.append(
                *tokens(1, *numbers), torch.tensor([list(numbers)], dtype=torch.int64) if said else None
            )
        visible = seen(held)
        for n in numbers:
            assert all(visible[p] == p for p in range(max(0, n - window + 1), n + 1))
        assert all(p == number for p, number in visible.items())
        come += size


def test_a_rolling_cache_keeps_the_latest_of_each_sample_and_no_padding():
    cache = cache_of(batch=2, length=3, rolling=True)
    cache.append(*tokens(2, 0, 1, 2, 3, 4), torch.tensor([[0, 1, 2, 3, 4], [0, 1, -1, -1, -1]]))
    held = cache.append(*tokens(2, 9), torch.tensor([[5], [2]]))
    with torch.no_grad():
        again = cache.append(*tokens(2, 10))
    assert seen(held, 0) == {3: 3, 4: 4, 5: 9}
    assert seen(held, 1) == {0: 0, 1: 1, 2: 9}
    assert seen(again, 0) == {4: 4, 5: 9, 6: 10}
    assert seen(again, 1) == {1: 1, 2: 9, 3: 10}


def test_each_sample_counts_on_from_its_own_last_token():
    cache = cache_of(batch=2, length=8)
    cache.append(*tokens(2, 0, 1, 2), torch.tensor([[-1, 0, 1], [0, 1, 2]]))
    held = cache.append(*tokens(2, 7, 8))
    assert held.stand.query_positions.tolist() == [[2, 3], [3, 4]]
    assert held.stand.offset is None
    assert seen(held, 0) == {0: 1, 1: 2, 2: 7, 3: 8}
    assert cache.lengths.tolist() == [4, 5]


@pytest.mark.parametrize("rolling", [False, True])
def test_nothing_is_seen_of_the_sequence_before_a_reset(rolling):
    cache = cache_of(length=4, rolling=rolling)
    cache.append(*tokens(1, 100, 101, 102, 103))
    cache.reset()
    held = cache.append(*tokens(1, 0))
    assert seen(held) == {0: 0}
    with torch.no_grad():
        assert seen(cache.append(*tokens(1, 1))) == {0: 0, 1: 1}


@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_a_sequence_that_starts_at_position_0_sees_nothing_of_the_last_even_without_reset(rolling, grad):
    cache = cache_of(length=8, rolling=rolling)
    cache.append(*tokens(1, 100, 101, 102))
    with torch.set_grad_enabled(grad):
        held = cache.append(*tokens(1, 0), torch.tensor([[0]]))
        assert seen(held) == {0: 0}
        held = cache.append(*tokens(1, 1, 2), torch.tensor([[1, 2]]))
        assert seen(held) == {0: 0, 1: 1, 2: 2}


def test_going_back_in_time_undoes_tokens_of_that_sample_only():
    cache = cache_of(batch=2, length=8)
    cache.append(*tokens(2, 0, 1, 2, 3))
    held = cache.append(*tokens(2, 50), torch.tensor([[2], [4]]))
    assert seen(held, 0) == {0: 0, 1: 1, 2: 50}
    assert seen(held, 1) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 50}


@pytest.mark.parametrize("rolling", [False, True])
def test_reorder_lets_a_sample_go_on_from_another_and_may_change_the_batch(rolling):
    cache = cache_of(batch=2, length=5, rolling=rolling)
    key, value = tokens(2, 0, 1)
    mark = torch.tensor([10.0, 20.0]).view(2, 1, 1, 1)
    cache.append(key + mark, value + mark, torch.tensor([[0, 1], [-1, 0]]))
    cache.reorder(torch.tensor([1, 0, 1]))
    held = cache.append(*tokens(3, 5))
    assert cache.batch == 3
    assert seen(held, 0) == {0: 21, 1: 5} == seen(held, 2)
    assert seen(held, 1) == {0: 10, 1: 11, 2: 5}


def test_what_a_call_returned_does_not_change_with_the_next_token():
    cache = cache_of(length=6)
    weight = torch.ones(1, requires_grad=True)
    first = cache.append(*(weight * part for part in tokens(1, 1, 2)))
    loss = (first.key**2).sum()
    cache.reset()
    cache.append(*tokens(1, 7, 8))
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.item() == 2 * H * D * (1 + 4)


def test_a_deep_copy_goes_its_own_way():
    cache = cache_of()
    cache.append(*tokens(1, 0))
    other = copy.deepcopy(cache)
    cache.append(*tokens(1, 1))
    assert seen(other.append(*tokens(1, 9))) == {0: 0, 1: 9}
    assert cache.seen == 2


def test_it_says_how_full_it_is():
    cache = cache_of(length=4)
    cache.append(*tokens(1, 0))
    assert repr(cache) == "KVCache(1 of 4; batch=1, num_kv_heads=2, head_dim=4, value_dim=3, torch.float32)"
    assert repr(cache_of(length=4, rolling=True)).startswith("KVCache(rolling, latest 4; ")


def test_a_full_cache_refuses_says_the_numbers_and_stays_as_it_was():
    cache = cache_of(length=4)
    cache.append(*tokens(1, 0, 1, 2))
    with pytest.raises(CacheError) as caught:
        cache.append(*tokens(1, 3, 4), torch.tensor([[0, 1]]))
    assert str(caught.value) == (
        "the cache has 4 slots, 3 of them taken, and got 2 more tokens; make it longer (length=5), "
        "or call reset() before a new sequence"
    )
    assert seen(cache.append(*tokens(1, 3))) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_another_batch_is_refused():
    with pytest.raises(CacheError) as caught:
        cache_of(batch=2).append(*tokens(3, 0))
    assert str(caught.value) == (
        "the cache holds 2 sequences and got 3; make one with batch=3, or choose among those held with reorder(index)"
    )


def test_keys_of_another_layer_are_refused():
    with pytest.raises(CacheError) as caught:
        cache_of().append(torch.zeros(1, 5, 1, 8), torch.zeros(1, 5, 1, 8))
    assert str(caught.value) == (
        "the cache was made for 2 key heads of width 4 and values of width 3; got 5 heads of width 8 and values of "
        "width 8; give each layer its own cache"
    )


def test_another_dtype_and_another_device_are_refused():
    key, value = tokens(1, 0)
    with pytest.raises(DtypeError) as caught:
        cache_of().append(key.half(), value.half())
    assert str(caught.value) == (
        "the cache holds torch.float32 on cpu and got keys of torch.float16 on cpu; "
        "make one with dtype=torch.float16, device='cpu'"
    )
    with pytest.raises(DtypeError, match=r"holds torch\.float32 on meta and got keys of torch\.float32 on cpu"):
        cache_of(device="meta").append(key, value)


def test_keys_and_values_must_be_four_axes_of_one_length():
    with pytest.raises(ShapeError) as caught:
        cache_of().append(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 2, 3))
    assert str(caught.value) == (
        "a cache takes keys (B, H, T, D) and values (B, H, T, Dv); got (1, 2, 3, 4) and (1, 2, 2, 3)"
    )


def test_positions_of_a_wrong_kind_are_refused():
    with pytest.raises(DtypeError) as caught:
        cache_of().append(*tokens(1, 0), torch.tensor([[0.0]]))
    assert str(caught.value) == "positions are integers, one for each token; got torch.float32"
    with pytest.raises(ShapeError) as caught:
        cache_of(batch=3).append(*tokens(3, 0, 1), torch.tensor([[0, 1], [0, 1]]))
    assert str(caught.value) == (
        "positions have shape (2, 2); 3 sequences of 2 tokens need (3, 2), or (1, 2) where all stand alike"
    )


def test_positions_that_do_not_increase_are_refused():
    with pytest.raises(ShapeError) as caught:
        cache_of(batch=2).append(*tokens(2, 0, 1, 2), torch.tensor([[0, 1, 2], [4, -1, 4]]))
    assert str(caught.value) == (
        "positions must increase within a sample: sample 1 has 4 and later 4; give padding tokens the position -1, "
        "and each sequence its own row"
    )


def test_positions_below_minus_one_are_padding_too():
    cache = cache_of(batch=2, length=2)
    cache.append(*tokens(2, 0, 1), torch.tensor([[-7, -3], [-2, 0]]))
    assert cache.lengths.tolist() == [0, 1]


def test_no_slot_of_a_rolling_cache_is_written_twice_in_one_call():
    cache = cache_of(length=3, rolling=True)
    slots, _ = cache._slots(torch.arange(8)[None])  # twice would be a race on a GPU, and passes unseen on a CPU
    assert slots.tolist() == [[3, 3, 3, 3, 3, 2, 0, 1]]


@pytest.mark.parametrize("index", [torch.tensor([[0]]), torch.tensor([0.0]), torch.tensor([True])])
def test_reorder_takes_sample_numbers_only(index):
    with pytest.raises(ShapeError, match="reorder takes one sample number for each new sample, integer"):
        cache_of().reorder(index)


@pytest.mark.parametrize("name", ["batch", "num_kv_heads", "length", "head_dim", "value_dim"])
def test_impossible_sizes_are_refused_by_name(name):
    sizes = {"batch": 1, "num_kv_heads": 1, "length": 1, "head_dim": 1, "value_dim": 1, name: -1}
    with pytest.raises(ShapeError, match=f"KVCache got {name}=-1; it must be at least"):
        KVCache(**sizes)
