"""Foreign masks, each through its own door: compared with the frameworks that apply them."""

import re

import pytest
import torch

import regard
from regard.core.errors import MaskError, ShapeError
from regard.core.mask import structure
from regard.mask import causal, dense, from_hf, from_torch_mha, padding, sliding_window, to_additive, to_torch_mha

B, H, T, E = 2, 2, 4, 6
generator = torch.Generator().manual_seed(0)
hidden = torch.rand(T, T, generator=generator) > 0.7
hidden[:, 0] = False
pad = torch.tensor([[False, False, False, True], [False, True, False, True]])


def refused(text, kind=MaskError):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


def both(attn_mask, key_padding_mask, mask):
    """torch's module, and attention() with its weights and our mask."""
    module = torch.nn.MultiheadAttention(E, H, batch_first=True).double().eval()
    x = torch.randn(B, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theirs = module(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask)[0]
    packed = torch.nn.functional.linear(x, module.in_proj_weight, module.in_proj_bias)
    q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in packed.chunk(3, dim=-1))
    ours = module.out_proj(regard.attention(q, k, v, mask=mask).transpose(1, 2).flatten(2))
    torch.testing.assert_close(ours, theirs)


per_head = torch.rand(B * H, T, T, generator=torch.Generator().manual_seed(2)) > 0.6
per_head[:, :, 0] = False
low = torch.zeros(T, T).masked_fill(hidden, float("-inf")).double()


@pytest.mark.parametrize("key_padding_mask", [None, pad])
@pytest.mark.parametrize("attn_mask", [None, hidden, per_head])
def test_torchs_masks_mean_what_torch_makes_of_them(attn_mask, key_padding_mask):
    if attn_mask is None and key_padding_mask is None:
        return
    both(attn_mask, key_padding_mask, from_torch_mha(attn_mask, key_padding_mask, num_heads=H))


def test_an_additive_mask_of_torch_becomes_a_boolean():
    both(low, None, from_torch_mha(low))
    floating = torch.zeros(B, T).masked_fill(pad, -1e9).double()
    both(None, floating, from_torch_mha(None, floating))


@pytest.mark.parametrize("mask", [causal(), causal() & padding(~pad), padding(lengths=[2, 4]), sliding_window(1, 1)])
def test_our_masks_mean_the_same_in_torchs_module(mask):
    theirs = to_torch_mha(mask, T, T, batch=B, num_heads=H)
    both(theirs.attn_mask, theirs.key_padding_mask, mask)
    again = from_torch_mha(*theirs, num_heads=H)
    assert torch.equal(*(m.materialise(T, T).expand(B, 1, T, T) for m in (mask, again)))


def test_a_mask_per_head_becomes_torchs_three_axes():
    mask = dense(~per_head.unflatten(0, (B, H)))
    theirs = to_torch_mha(mask, T, T, batch=B, num_heads=H)
    assert torch.equal(theirs.attn_mask, per_head)
    both(theirs.attn_mask, None, mask)
    with refused(f"{mask!r} differs between samples or heads: give batch= and num_heads="):
        to_torch_mha(mask, T, T)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
def test_a_hugging_face_mask_of_two_axes_keeps_where_it_is_one(dtype):
    mask = from_hf((~pad).to(dtype))
    assert torch.equal(mask.materialise(T, T)[:, 0, 0], ~pad)
    assert structure.of(mask).padding


def test_a_hugging_face_mask_of_four_axes_is_additive_or_true_to_attend():
    smallest = torch.finfo(torch.float32).min
    additive = torch.zeros(1, 1, T, T).masked_fill(hidden, smallest)
    assert torch.equal(from_hf(additive).materialise(T, T)[0, 0], ~hidden)
    assert torch.equal(from_hf(~hidden[None, None]).materialise(T, T)[0, 0], ~hidden)
    assert torch.equal(from_hf((~hidden[None, None]).long()).materialise(T, T)[0, 0], ~hidden)
    twice = from_hf(additive * 2)  # two masks added: overflowed to -inf
    assert torch.equal(twice.materialise(T, T)[0, 0], ~hidden)


def test_masks_that_hide_nothing_cost_nothing():
    for mask in (
        from_hf(torch.ones(B, T)),
        from_torch_mha(torch.zeros(T, T)),
        from_torch_mha(None, torch.zeros(B, T) > 0),
    ):
        assert structure.of(mask).empty
    assert structure.of(from_torch_mha(torch.zeros(T, T) > 0, pad)).plain
    with pytest.raises(ShapeError, match="keep of padding\\(\\) covers 4 keys, but the call has 5"):
        from_hf(torch.ones(B, T)).places(5, 5)


def test_additive_is_zero_and_minus_infinity_in_the_dtype_that_is_wanted():
    mask = to_additive(causal(), 2, 2, dtype=torch.bfloat16)
    assert mask.dtype == torch.bfloat16
    assert mask.tolist() == [[[[0.0, float("-inf")], [0.0, 0.0]]]]
    assert torch.equal(from_hf(mask).materialise(2, 2), causal().materialise(2, 2))


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: from_torch_mha(), MaskError, "from_torch_mha() needs attn_mask or key_padding_mask"),
        (
            lambda: from_torch_mha(torch.ones(2, 2, dtype=torch.int64)),
            MaskError,
            "attn_mask of torch.nn.MultiheadAttention is bool (True = hidden) or float, got torch.int64",
        ),
        (
            lambda: from_torch_mha(torch.ones(2, 2)),
            MaskError,
            "attn_mask is torch.float32 with the value 1, which neither attends (0) nor hides (<= -80); scores to add "
            "go in as bias=, a boolean mask says True = attend",
        ),
        (
            lambda: from_torch_mha(torch.zeros(4, 2, 2) > 0),
            ShapeError,
            "attn_mask is (4, 2, 2): its first axis is B * num_heads; num_heads=None does not say which",
        ),
        (
            lambda: from_torch_mha(torch.zeros(2) > 0),
            ShapeError,
            "attn_mask must be (T, S) or (B * num_heads, T, S), got (2,)",
        ),
        (lambda: from_torch_mha(None, torch.zeros(2) > 0), ShapeError, "key_padding_mask must be (B, S), got (2,)"),
        (
            lambda: from_hf(torch.tensor([[1, 2]])),
            MaskError,
            "attention_mask has the value 2; Hugging Face's is 1 = keep, 0 = pad",
        ),
        (lambda: from_hf(torch.ones(2, 2, 2)), ShapeError, "attention_mask must be (B, S) or 4-D, got (2, 2, 2)"),
        (
            lambda: from_hf(torch.full((1, 1, 1, 1), float("nan"))),
            MaskError,
            "attention_mask is torch.float32 with the value nan, which neither attends (0) nor hides (<= -80); scores "
            "to add go in as bias=, a boolean mask says True = attend",
        ),
        (
            lambda: to_additive(causal(), 2, 2, dtype=torch.int64),
            MaskError,
            "an additive mask needs a float dtype, got torch.int64",
        ),
    ],
)
def test_what_is_unclear_is_refused(make, kind, text):
    with refused(text, kind):
        make()
