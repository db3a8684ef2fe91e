"""A cache in fewer bits: the error is that of one rounding, however many tokens come at a time; the rest is as in KVCache."""

import pytest
import torch

from regard.core.errors import CacheError, DtypeError
from regard.mask import causal, padding, sliding_window
from regard.nn import CompactKVCache, MultiHeadAttention

E, HEADS, T = 32, 4, 12
STORED = {torch.int8: 1 / 127, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}  # largest relative step of a number
MASKS = {"causal": causal(), "rolling": causal() & sliding_window(left=4)}


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(mask) -> MultiHeadAttention:
    made = MultiHeadAttention(E, HEADS, num_kv_heads=2, mask=mask).eval()
    for seed, parameter in enumerate(made.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5
    return made


def decoded(made: MultiHeadAttention, x: torch.Tensor, cache, step: int) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([made(part, cache=cache) for part in x.split(step, dim=1)], dim=1)


def rounded(x: torch.Tensor, stored: torch.dtype) -> torch.Tensor:
    """What a number of (B, H, T, D) becomes, in an open form."""
    if stored != torch.int8:
        return x.to(stored).to(x.dtype)
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    return (x / scale).round() * scale


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("step", [1, 5, 12])
def test_decoding_equals_attention_to_rounded_keys_and_values(stored, mask, step):
    made, x = layer(MASKS[mask]), draws(2, T, E, seed=30)
    cache = CompactKVCache.like(made.new_cache(2, T), stored=stored)
    output = decoded(made, x, cache, step)
    q, k, v = made._project(x, x, x)
    from regard.core.reference import attention

    exact = attention(q, rounded(k, stored), rounded(v, stored), mask=MASKS[mask])
    expected = made.out_proj(exact.transpose(1, 2).flatten(2).float())
    torch.testing.assert_close(output, expected, atol=5e-6, rtol=0)
    assert cache.rolling == (mask == "rolling")


@pytest.mark.parametrize("stored", STORED)
def test_the_error_is_that_of_one_rounding(stored):
    made, x = layer(causal()), draws(2, T, E, seed=31)
    with torch.no_grad():
        full = made(x)
    apart = (decoded(made, x, CompactKVCache.like(made.new_cache(2, T), stored=stored), 1) - full).abs().amax()
    assert 0 < apart <= 2 * STORED[stored] * full.abs().amax()


@pytest.mark.parametrize("mask", MASKS)
def test_what_comes_back_has_the_dtype_of_the_layer_and_memory_is_less(mask):
    made = layer(MASKS[mask])
    plain = made.new_cache(2, T)
    cache = CompactKVCache.like(plain)
    held = cache.append(draws(2, 2, 3, 8), draws(2, 2, 3, 8, seed=1))
    assert (held.key.dtype, held.value.dtype) == (torch.float32, torch.float32)
    assert (cache.key.dtype, cache.value.dtype) == (torch.int8, torch.int8)
    assert cache.nbytes == plain.key.numel() * 2 * (8 + 4) // 8  # a byte each, and 4 bytes for each 8 of them
    assert CompactKVCache.like(plain, stored=torch.float16).nbytes == plain.key.numel() * 2 * 2


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_reach_the_tokens_of_this_call(mask):
    made, x = layer(MASKS[mask]), draws(2, T, E, seed=32)
    cache = CompactKVCache.like(made.new_cache(2, T))
    with torch.no_grad():
        made(x[:, :6], cache=cache)
    new = x[:, 6:].clone().requires_grad_()
    made(new, cache=cache).square().sum().backward()
    assert new.grad is not None
    assert bool(new.grad.abs().amax(dim=2).gt(0).all())
    assert made.k_proj.weight.grad is not None
    assert bool(made.v_proj.weight.grad.any())


def test_padding_positions_reset_and_reorder_are_as_in_the_plain_cache():
    made, x = layer(causal()), draws(2, T, E, seed=33)
    keep = torch.tensor([[False] * 3 + [True] * 9, [True] * 12])
    plain = made.new_cache(2, T)
    cache = CompactKVCache.like(plain, stored=torch.float16)
    with torch.no_grad():
        for one in (plain, cache):
            one.outputs = [made(x[:, :8], mask=padding(keep[:, :8]), cache=one)]
            one.reorder(torch.tensor([1, 0]))
            one.outputs.append(made(x.flip(0)[:, 8:], mask=padding(keep.flip(0)), cache=one))
            one.reset()
            one.outputs.append(made(x, cache=one))
    for a, b in zip(plain.outputs, cache.outputs):
        torch.testing.assert_close(a, b, atol=5e-3, rtol=0)


def test_a_token_of_zeros_is_kept_as_zeros():
    cache = CompactKVCache(1, 1, 2, 4)
    held = cache.append(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4))
    assert not held.key.isnan().any()
    assert not held.key.any()


def test_a_format_that_is_none_a_wrong_dtype_and_a_full_cache_are_refused():
    with pytest.raises(
        DtypeError, match=r"stored is one of torch.int8, torch.bfloat16, torch.float16, got torch.int16"
    ):
        CompactKVCache(1, 1, 2, 4, stored=torch.int16)
    cache = CompactKVCache(1, 1, 2, 4)
    with pytest.raises(DtypeError, match=r"the cache gives torch.float32 and got keys of torch.float64; make one with"):
        cache.append(torch.zeros(1, 1, 1, 4).double(), torch.zeros(1, 1, 1, 4).double())
    with pytest.raises(CacheError, match="the cache has 2 slots, 0 of them taken, and got 3 more tokens"):
        cache.append(torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4))
    assert repr(cache).startswith("CompactKVCache(0 of 2; batch=1")
