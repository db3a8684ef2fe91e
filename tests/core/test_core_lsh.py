"""Hashed attention equals exact attention to the tokens that an open form says are near; nothing later moves them."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn.functional import normalize

from regard.core import reference
from regard.core.errors import ShapeError
from regard.core.lsh import buckets_of, draw_rotations, hashed_attention

EXACT = 1e-11  # float64: the same sums in another order
ROUNDING = 1e-6  # float32, outputs of size 1: sums in another order


def draws(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rotations_of(rounds: int, width: int, buckets: int, seed: int = 0) -> torch.Tensor:
    return draw_rotations(rounds, width, buckets, generator=torch.Generator().manual_seed(seed))


def near(bucket: list[int], real: list[int], C: int, causal: bool) -> dict[int, list[int]]:
    """Of one round, token by token: whom each token of `real` finds near it."""
    order = sorted(real, key=lambda t: (bucket[t], t))
    found = {}
    for place, token in enumerate(order):
        if causal:
            found[token] = [other for other in order[:place] if bucket[other] == bucket[token]][-C:]
        else:
            found[token] = [o for p, o in enumerate(order) if place // C - p // C in (0, 1) and o != token]
    return found


def seen(shared, rotations, C, causal, keep) -> torch.Tensor:
    """(B, H, T, T) bool: the union over the rounds, and itself where that is empty."""
    B, H, T, _ = shared.shape
    table = torch.zeros(B, H, T, T, dtype=torch.bool)
    buckets = buckets_of(shared, rotations).tolist()
    for b in range(B):
        real = [t for t in range(T) if keep[b, t]]
        for h in range(H):
            rounds = buckets[b][h] + ([[0] * T] if causal else [])
            for bucket in rounds:
                for token, others in near(bucket, real, C, causal).items():
                    table[b, h, token, others] = True
            for token in real:
                table[b, h, token, token] = not table[b, h, token].any()
    return table


@settings(max_examples=200)
@given(
    T=st.integers(1, 24),
    C=st.integers(1, 30),
    rounds=st.integers(1, 3),
    buckets=st.sampled_from([1, 2, 4, 8]),
    causal=st.booleans(),
    kept=st.sampled_from([0.0, 0.6, 1.0]),
)
def test_it_is_exact_attention_to_the_union_of_what_the_rounds_find(T, C, rounds, buckets, causal, kept):
    shared, value = draws(2, 2, T, 6, seed=T), draws(2, 2, T, 5, seed=T + 1)
    rotations = rotations_of(rounds, 6, buckets, seed=C)
    keep = torch.rand(2, T, generator=torch.Generator().manual_seed(C)) < kept
    output = hashed_attention(shared, value, rotations, bucket_size=C, causal=causal, keep=keep)
    mask = seen(shared, rotations, C, causal, keep)
    expected = reference.attention(shared, normalize(shared, dim=-1), value, mask=mask)
    torch.testing.assert_close(output, expected, atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_where_a_bucket_covers_all_tokens_it_is_exact_and_a_token_sees_itself_only_alone(causal):
    T = 20
    shared, value = draws(2, 2, T, 6), draws(2, 2, T, 5, seed=1)
    others = torch.ones(T, T, dtype=torch.bool).tril(-1 if causal else T) & ~torch.eye(T, dtype=torch.bool)
    others[0, 0] = causal  # the first has nobody else
    expected = reference.attention(shared, normalize(shared, dim=-1), value, mask=others)
    for rotations in (rotations_of(3, 6, 8), rotations_of(1, 6, 1)):
        output = hashed_attention(shared, value, rotations, bucket_size=T, causal=causal)
        torch.testing.assert_close(output, expected, atol=EXACT, rtol=EXACT)


def test_tokens_that_point_alike_fall_into_one_bucket_and_opposite_ones_do_not():
    shared = draws(1, 1, 50, 6)
    bucket = buckets_of(shared, rotations_of(4, 6, 8))
    assert bucket.min() >= 0
    assert bucket.max() <= 7
    assert torch.equal(bucket, buckets_of(shared * 3.7, rotations_of(4, 6, 8)))
    assert not (bucket == buckets_of(-shared, rotations_of(4, 6, 8))).any()


@pytest.mark.parametrize("other", [float("nan"), 5.0, -1e4])
def test_a_later_token_changes_an_earlier_row_by_rounding_alone(other):
    shared, value = draws(1, 2, 40, 6, dtype=torch.float32), draws(1, 2, 40, 5, seed=1, dtype=torch.float32)
    rotations = rotations_of(2, 6, 4)
    before = hashed_attention(shared, value, rotations, bucket_size=4, causal=True)
    for t in range(0, 40, 3):
        changed = [x.clone() for x in (shared, value)]
        for x in changed:
            x[:, :, t + 1 :] = other if other != 5.0 else draws(1, 2, 39 - t, x.shape[3], seed=t, dtype=torch.float32)
        after = hashed_attention(*changed, rotations, bucket_size=4, causal=True)
        assert (after - before)[:, :, : t + 1].abs().max() < ROUNDING


def test_more_tokens_behind_leave_earlier_rows_as_they_are():
    shared, value = draws(1, 2, 60, 6), draws(1, 2, 60, 5, seed=1)
    rotations = rotations_of(3, 6, 8)
    whole = hashed_attention(shared, value, rotations, bucket_size=4, causal=True)
    for T in (1, 5, 31, 59):
        part = hashed_attention(shared[:, :, :T], value[:, :, :T], rotations, bucket_size=4, causal=True)
        torch.testing.assert_close(part, whole[:, :, :T], atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_and_trimmed_are_the_same_whatever_the_padding_holds(causal, side):
    shared, value = draws(1, 2, 19, 6), draws(1, 2, 19, 5, seed=1)
    rotations = rotations_of(2, 6, 4)
    trimmed = hashed_attention(shared, value, rotations, bucket_size=4, causal=causal)
    for content in (0.0, 1e6, float("nan")):
        more = torch.full((1, 2, 6, 6), content, dtype=torch.float64)
        parts = [[more, shared], [more[..., :5], value]] if side == "left" else [[shared, more], [value, more[..., :5]]]
        keep = torch.ones(1, 25, dtype=torch.bool)
        hidden = slice(0, 6) if side == "left" else slice(19, 25)
        keep[:, hidden] = False
        output = hashed_attention(
            *(torch.cat(p, dim=2) for p in parts), rotations, bucket_size=4, causal=causal, keep=keep
        )
        torch.testing.assert_close(output[:, :, keep[0]], trimmed, atol=EXACT, rtol=EXACT)
        assert not output[:, :, hidden].any()


def test_only_rows_that_see_a_token_that_is_not_finite_are_not_finite():
    shared, value = draws(1, 1, 30, 6), draws(1, 1, 30, 5, seed=1)
    value[0, 0, 11] = float("inf")
    rotations, keep = rotations_of(2, 6, 4), torch.ones(1, 30, dtype=torch.bool)
    for causal in (False, True):
        output = hashed_attention(shared, value, rotations, bucket_size=4, causal=causal)
        sees = seen(shared, rotations, 4, causal, keep)[0, 0, :, 11]
        sees[11] = True  # its own query is of the same token
        assert torch.equal(~output[0, 0].isfinite().all(dim=-1), sees)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_right(causal):
    shared, value = draws(1, 2, 11, 4).requires_grad_(), draws(1, 2, 11, 3, seed=1).requires_grad_()
    keep = torch.ones(1, 11, dtype=torch.bool)
    keep[0, 3] = False

    def run(shared, value):
        return hashed_attention(shared, value, rotations_of(2, 4, 4), bucket_size=3, causal=causal, keep=keep)

    assert torch.autograd.gradcheck(run, (shared, value), fast_mode=True)


def test_sixteen_bits_are_computed_in_thirty_two_and_empty_sequences_stay_empty():
    shared, value = draws(1, 1, 9, 6).half(), draws(1, 1, 9, 5, seed=1).half()
    rotations = rotations_of(2, 6, 4)
    output = hashed_attention(shared, value, rotations, bucket_size=4)
    exact = hashed_attention(shared.double(), value.double(), rotations, bucket_size=4)
    assert output.dtype == torch.float16
    assert (output.double() - exact).abs().max() <= 2 * torch.finfo(torch.float16).eps
    assert hashed_attention(shared[:, :, :0], value[:, :, :0], rotations, bucket_size=4).shape == (1, 1, 0, 5)


@pytest.mark.parametrize(("rounds", "buckets"), [(0, 4), (1, 3), (1, 0)])
def test_numbers_of_rounds_and_buckets_that_cannot_be_are_refused_with_both(rounds, buckets):
    with pytest.raises(ShapeError, match=f"even number of buckets .*got {rounds} rounds and {buckets} buckets"):
        draw_rotations(rounds, 8, buckets)
