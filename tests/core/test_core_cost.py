"""The formulas of cost, against torch's own counter, counted loops and the sizes of tensors."""

import re

import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils.flop_counter import FlopCounterMode

import regard
from regard.core import cost
from regard.core.errors import ShapeError
from regard.mask import causal, sliding_window

SHAPE = cost.Shape(batch=2, heads=4, queries=32, keys=48, head_dim=16, kv_heads=4, value_dim=8)


def tensors(requires_grad=False):
    sizes = ((2, 4, 32, 16), (2, 4, 48, 16), (2, 4, 48, 8))
    return [torch.zeros(size, requires_grad=requires_grad) for size in sizes]


@pytest.mark.parametrize("backward", [False, True])
def test_the_products_of_the_open_form_are_those_that_torch_counts(backward):
    counter = FlopCounterMode(display=False)
    with counter:
        output = regard.attention(*tensors(backward), backend="open")
        if backward:
            output.sum().backward()
    ours = cost.open_form(SHAPE, backward=backward).flops - cost.SOFTMAX_OPERATIONS * 2 * 4 * 32 * 48
    assert ours == counter.get_total_flops()


def test_the_fused_kernel_has_the_same_products_and_makes_the_scores_again_for_backward():
    shape = cost.Shape(batch=1, heads=2, queries=64, keys=64, head_dim=8)
    forward, both = cost.fused(shape).flops, cost.fused(shape, backward=True).flops
    products = forward - cost.SOFTMAX_OPERATIONS * 2 * 64 * 64
    assert products == 4 * 2 * 64 * 64 * 8
    assert both - forward == products * 5 // 2
    assert cost.open_form(shape).flops == forward


def test_bytes_are_the_sizes_of_the_tensors():
    given, output = tensors(), torch.zeros(2, 4, 32, 8)
    for itemsize, dtype in ((4, torch.float32), (2, torch.bfloat16)):
        fused = cost.fused(SHAPE, itemsize=itemsize)
        assert fused.read == sum(x.to(dtype).nbytes for x in given)
        assert fused.written == output.to(dtype).nbytes
        assert fused.held == 2 * 4 * 32 * 4  # a float32 per row


def test_the_open_form_holds_the_scores_and_keeps_the_weights():
    scores = 2 * 4 * 32 * 48
    single, half = cost.open_form(SHAPE, backward=True), cost.open_form(SHAPE, itemsize=2, backward=True)
    assert single.saved - cost.fused(SHAPE, backward=True).saved + 2 * 4 * 32 * 4 == 4 * scores
    assert half.saved - cost.fused(SHAPE, itemsize=2, backward=True).saved + 2 * 4 * 32 * 4 == 6 * scores
    assert single.held > 2 * 4 * scores


def test_fewer_key_heads_are_fewer_bytes_and_the_same_operations():
    few = cost.Shape(batch=2, heads=4, queries=1, keys=1000, head_dim=64, kv_heads=1)
    all_heads = cost.Shape(batch=2, heads=4, queries=1, keys=1000, head_dim=64)
    assert cost.fused(few).flops == cost.fused(all_heads).flops
    assert cost.fused(few).read < cost.fused(all_heads).read / 3.9
    assert cost.fused(few).intensity > 3.9 * cost.fused(all_heads).intensity


@given(T=st.integers(0, 9), S=st.integers(0, 9), offset=st.integers(-4, 9), window=st.none() | st.integers(1, 5))
def test_pairs_are_those_that_the_mask_leaves(T, S, offset, window):
    mask = causal(offset=offset)
    mask = mask if window is None else mask & sliding_window(left=window - 1)
    assert cost.causal_pairs(T, S, offset, window) == int(mask.materialise(T, S).sum())


def test_a_backend_that_skips_hidden_pairs_does_fewer_operations():
    pairs = cost.causal_pairs(64, 64)
    half = cost.Shape(batch=1, heads=1, queries=64, keys=64, head_dim=8, pairs=pairs)
    full = cost.Shape(batch=1, heads=1, queries=64, keys=64, head_dim=8)
    assert cost.fused(half).flops / cost.fused(full).flops == pytest.approx(65 / 128)
    assert cost.open_form(half).flops == cost.open_form(full).flops


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"kv_heads": 3}, "4 query heads cannot share 3 key heads; num_kv_heads must divide num_heads"),
        ({"pairs": 7}, "pairs is at most queries * keys = 6, got 7"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, text):
    with pytest.raises(ShapeError, match="^" + re.escape(text) + "$"):
        cost.Shape(**{"batch": 1, "heads": 4, "queries": 2, "keys": 3, "head_dim": 8, **sizes})
