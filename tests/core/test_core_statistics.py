"""Statistics computed by tiles equal those of the full float64 map, for every mask, and hold no map."""

import gc
import resource

import pytest
import torch
from hypothesis import given, strategies as st

from regard.core.errors import ShapeError
from regard.core.mask import band, sequences, table, tokens
from regard.core.reference import attention as reference_attention, attention_weights as reference_weights
from regard.core.statistics import attention_statistics

SINGLE = 2e-5  # float32 scores of up to 40 keys against float64


def draw(seed, B, H, Hkv, T, S, D, Dv, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    shapes = ((B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv))
    return [torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype) for shape in shapes], g


def expected(weights, top):
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    return entropy, weights.amax(-1), weights.sum(-2), weights.topk(top, -1).values


MASKS = {
    "none": lambda B, H, T, S, g: None,
    "causal": lambda B, H, T, S, g: band.causal(offset=S - T),
    "top_left": lambda B, H, T, S, g: band.causal(offset=0),
    "window": lambda B, H, T, S, g: band.sliding_window(2, 1, offset=S - T),
    "padding": lambda B, H, T, S, g: sequences.padding(lengths=torch.randint(0, S + 1, (B,), generator=g)),
    "prefix": lambda B, H, T, S, g: band.causal(offset=S - T) | tokens.prefix(2),
    "dense": lambda B, H, T, S, g: table.dense(torch.rand(B, H, T, S, generator=g) < 0.3),
}


@pytest.mark.parametrize("mask", MASKS)
@given(
    seed=st.integers(0, 1000), B=st.integers(1, 2), Hkv=st.integers(1, 3), group=st.integers(1, 3),
    T=st.integers(1, 9), S=st.integers(1, 40), tile=st.sampled_from([64, 1000, 1 << 20]),
    extra=st.sampled_from(["", "bias", "softcap", "sink", "scale"]),
)  # fmt: skip
def test_statistics_equal_those_of_the_full_map(mask, seed, B, Hkv, group, T, S, tile, extra):
    H = Hkv * group
    (q, k, v), g = draw(seed, B, H, Hkv, T, S, 4, 3)
    options = {"mask": MASKS[mask](B, H, T, S, g)}
    if extra == "bias":
        options["bias"] = torch.randn(1, H, T, S, generator=g)
    if extra == "softcap":
        options["softcap"] = 2.0
    if extra == "sink":
        options["sink"] = torch.randn(H, generator=g)
    if extra == "scale":
        options["scale"] = 3.0
    top = min(3, S)
    got = attention_statistics(q, k, v, **options, top=top, tile_bytes=tile)
    weights = reference_weights(q, k, **options)
    entropy, largest, received, values = expected(weights, top)
    for mine, theirs in (
        (got.entropy, entropy), (got.max, largest), (got.received, received), (got.top_values, values),
        (got.output, reference_attention(q, k, v, **options)),
        (weights.gather(-1, got.top_indices), values),
    ):  # fmt: skip
        assert (mine.double() - theirs).abs().max() < SINGLE * max(1.0, float(theirs.abs().max()))


@pytest.mark.parametrize("mask", MASKS)
def test_the_lse_turns_scores_into_weights(mask):
    (q, k, v), g = draw(1, 2, 4, 2, 6, 9, 4, 4, torch.float64)
    mask = MASKS[mask](2, 4, 6, 9, g)
    got = attention_statistics(q, k, v, mask=mask)
    weights = reference_weights(q, k, mask=mask)
    scores = q @ k.repeat_interleave(2, 1).mT * 4**-0.5
    again = torch.exp(scores - got.lse[..., None])
    assert torch.allclose(again.nan_to_num(0, 0, 0)[weights > 0], weights[weights > 0], atol=1e-12)
    assert torch.equal(got.lse == -torch.inf, (weights == 0).all(-1))


def test_rows_that_see_nothing_are_zero_and_hidden_nan_does_no_harm():
    (q, k, v), _ = draw(2, 1, 2, 2, 4, 4, 4, 4)
    attend = torch.tensor([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]]).bool()
    k[:, :, 3], v[:, :, 3] = torch.nan, torch.inf
    got = attention_statistics(q, k, v, mask=attend, top=2)
    for x in (got.output, got.entropy, got.max, got.received, got.top_values):
        assert x.isfinite().all()
    assert got.entropy[:, :, 1].abs().max() == 0
    assert (got.lse[:, :, 1] == -torch.inf).all()
    assert (got.received[:, :, 3] == 0).all()


def test_a_row_that_sees_a_nan_says_so():
    (q, k, v), _ = draw(3, 1, 1, 1, 3, 3, 4, 4)
    k[:, :, 2] = torch.nan
    got = attention_statistics(q, k, v, mask=band.causal())
    assert got.entropy[0, 0].isnan().tolist() == [False, False, True]


def test_half_precision_errs_at_most_twice_as_much_as_a_plain_half_precision_map():
    (q, k, v), _ = draw(4, 1, 4, 4, 32, 32, 16, 16, torch.bfloat16)
    weights = reference_weights(q, k)
    plain = torch.softmax((q @ k.mT * 0.25).float(), -1)
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    error = (attention_statistics(q, k, v).entropy - entropy).abs().max()
    assert error <= 2 * (-torch.special.xlogy(plain, plain).sum(-1) - entropy).abs().max()


def test_too_many_top_keys_are_refused_with_both_numbers():
    (q, k, v), _ = draw(5, 1, 1, 1, 3, 3, 4, 4)
    with pytest.raises(ShapeError, match="top=4 of 3 keys"):
        attention_statistics(q, k, v, top=4)


@pytest.mark.slow
def test_8192_tokens_fit_in_64_mib_beside_the_inputs():
    (q, k, v), _ = draw(6, 1, 8, 8, 8192, 8192, 64, 64)
    attention_statistics(q[:, :, :256], k[:, :, :256], v[:, :, :256], mask=band.causal())
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = attention_statistics(q, k, v, mask=band.causal())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 64, f"{grown:.0f} MiB"
    assert torch.allclose(got.received.sum(-1), torch.tensor(8192.0), rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
def test_long_calls_summed_in_blocks_say_the_same(causal, dtype, monkeypatch):
    monkeypatch.setattr("regard.core.statistics.LONG_CAUSAL", 1024)
    (q, k, v), _ = draw(3, 1, 4, 2, 1100, 1100, 8, 8, dtype)
    mask = band.causal() if causal else None
    q.requires_grad_()
    got = attention_statistics(q, k, v, mask=mask)
    slow = attention_statistics(q, k, v, mask=mask, top=1)  # asks for whole rows
    close = SINGLE if dtype == torch.float32 else 1e-11
    for name in ("output", "lse", "entropy", "max"):
        assert torch.allclose(getattr(got, name), getattr(slow, name), atol=close), name
    assert torch.allclose(got.received, slow.received, atol=1100 * close)
    assert got.lse.dtype == dtype
    assert not any(getattr(got, name).requires_grad for name in ("lse", "entropy", "max", "received"))
    (grad,) = torch.autograd.grad(got.output.sum(), q)
    (expected_grad,) = torch.autograd.grad(slow.output.sum(), q)
    assert torch.allclose(grad, expected_grad, atol=close)


@pytest.mark.parametrize("name", ["key", "value"])
def test_long_calls_with_a_hidden_nan_are_not_taken_in_blocks(name, monkeypatch):
    monkeypatch.setattr("regard.core.statistics.LONG_CAUSAL", 1024)
    (q, k, v), _ = draw(3, 1, 2, 2, 1100, 1100, 8, 8)
    clean = attention_statistics(q, k, v, mask=band.causal())
    spoiled = {"key": k.clone(), "value": v.clone()}
    spoiled[name][:, :, 1000] = torch.nan
    got = attention_statistics(q, spoiled["key"], spoiled["value"], mask=band.causal())
    assert torch.allclose(got.output[:, :, :1000], clean.output[:, :, :1000], atol=SINGLE)
    assert got.output[:, :, 1000:].isnan().all()
