"""Biases against their papers, the libraries that others load weights from, and plain loops."""

import math
import re

import pytest
import torch
from hypothesis import given, strategies as st

import regard
from regard.bias import (
    alibi,
    alibi_slopes,
    relative,
    relative_buckets,
    resize_window_table,
    softcap,
    window_index,
    window_table,
)
from regard.core.errors import DtypeError, ShapeError
from regard.mask import causal


def refused(text, kind=ShapeError):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


@pytest.mark.parametrize("power", range(7))
def test_slopes_of_a_power_of_two_are_the_papers(power):
    H = 2**power
    wanted = [2 ** (-8 / H * (i + 1)) for i in range(H)]
    torch.testing.assert_close(alibi_slopes(H), torch.tensor(wanted))


def test_slopes_of_other_numbers_are_those_of_bloom():
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    for heads in (1, 3, 6, 12, 20, 112):
        theirs = bloom.build_alibi_tensor(torch.ones(1, 5), heads, torch.float32).reshape(heads, 5)
        torch.testing.assert_close(alibi_slopes(heads) * 4, theirs[:, 4])


@given(heads=st.integers(1, 9), T=st.integers(1, 6), past=st.integers(0, 4))
def test_alibi_falls_with_the_distance_and_is_zero_at_the_token(heads, T, past):
    S = past + T
    bias = alibi(heads, torch.arange(past, S), S)
    slopes = alibi_slopes(heads).tolist()
    for h in range(heads):
        wanted = [[-slopes[h] * abs(past + i - j) for j in range(S)] for i in range(T)]
        torch.testing.assert_close(bias[0, h], torch.tensor(wanted))


def test_alibi_takes_a_place_per_sample_and_slopes_of_its_own():
    positions = torch.tensor([[3], [5]])
    bias = alibi(2, positions, 6, slopes=torch.tensor([1.0, 0.5]))
    assert bias.shape == (2, 2, 1, 6)
    assert bias[1, 1, 0].tolist() == [-2.5, -2.0, -1.5, -1.0, -0.5, 0.0]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (8, 20), (32, 1000)])
def test_buckets_are_those_of_t5(bidirectional, buckets, far):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distance = torch.arange(-300, 301)
    theirs = t5.T5Attention._relative_position_bucket(distance, bidirectional, buckets, far)
    ours = relative_buckets(distance, num_buckets=buckets, max_distance=far, bidirectional=bidirectional)
    assert torch.equal(ours, theirs)


def test_the_relative_bias_is_the_tables_row_of_each_distance():
    table = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    bias = relative(table, torch.tensor([2, 3]), 4, max_distance=20)
    bucket = relative_buckets(torch.arange(4)[None] - torch.tensor([[2], [3]]), num_buckets=8, max_distance=20)
    for h, i, j in ((h, i, j) for h in range(3) for i in range(2) for j in range(4)):
        assert bias[0, h, i, j] == table[bucket[i, j], h]
    bias.sum().backward()
    assert table.grad.sum() == 24


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (4, 4)])
def test_the_window_table_has_a_number_per_offset(size):
    h, w = size
    table = torch.arange((2 * h - 1) * (2 * w - 1) * 2, dtype=torch.float32).reshape(-1, 2)
    bias = window_table(table, size)
    places = [(y, x) for y in range(h) for x in range(w)]
    for i, (y, x) in enumerate(places):
        for j, (y2, x2) in enumerate(places):
            row = (y - y2 + h - 1) * (2 * w - 1) + x - x2 + w - 1
            assert bias[0, :, i, j].tolist() == table[row].tolist()


def test_the_window_index_is_that_of_swin():
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    if not hasattr(swin, "SwinRelativePositionBias"):
        pytest.skip("this transformers keeps Swin's index elsewhere")
    theirs = swin.SwinRelativePositionBias(num_heads=2, window_size=(7, 7)).relative_position_index
    assert torch.equal(window_index(7, 7), theirs.reshape(49, 49))


def test_a_resized_table_keeps_its_corners_its_middle_and_a_linear_slope():
    y, x = torch.meshgrid(torch.arange(5.0), torch.arange(5.0), indexing="ij")
    table = torch.stack([y.flatten(), 3 * x.flatten()], dim=1)  # a 3 x 3 window
    larger = resize_window_table(table, 3, (5, 4)).T.reshape(2, 9, 7)
    torch.testing.assert_close(
        larger[0, :, 0], torch.linspace(0, 4, 9), atol=0.1, rtol=0
    )  # bicubic bends at the border
    assert larger[1, 0].tolist()[0] == pytest.approx(0, abs=1e-5)
    assert larger[1, 0].tolist()[-1] == pytest.approx(12, abs=1e-5)
    assert larger[0, 4, 3] == pytest.approx(2.0, abs=1e-5)
    assert resize_window_table(table, 3, 3) is table


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_tables_keep_their_dtype(dtype):
    table = torch.randn(9, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert window_table(table, 2).dtype == dtype
    assert resize_window_table(table, 2, 3).dtype == dtype
    assert relative(table, 4, 4, max_distance=20).dtype == dtype
    assert alibi(2, 3, 3, dtype=dtype).dtype == dtype


def test_softcap_is_the_identity_near_zero_and_bounded_far_out():
    scores = torch.tensor([0.0, 1e-3, 5.0, 1e6])
    capped = softcap(scores, 2.0)
    assert capped.tolist() == pytest.approx([0.0, 1e-3, 2 * math.tanh(2.5), 2.0], rel=1e-5)
    with refused("softcap must be > 0, got 0"):
        softcap(scores, 0)


def test_the_learned_tables_have_gradients_through_attention():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 2, 4, 3, generator=generator, dtype=torch.float64)
    buckets = torch.randn(8, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    window = torch.randn(9, 2, generator=generator, dtype=torch.float64, requires_grad=True)

    def both(buckets, window):
        bias = relative(buckets, 4, 4, max_distance=20, bidirectional=False) + window_table(window, 2)
        return regard.attention(x, x, x, bias=bias, mask=causal())

    assert torch.autograd.gradcheck(both, (buckets, window))


def test_biases_compile_and_export_with_any_length():
    torch._dynamo.reset()

    class Biased(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)))

        def forward(self, x):
            place = torch.arange(x.shape[2])
            bias = alibi(4, place, place) + relative(self.table, place, place, max_distance=20)
            return regard.attention(x, x, x, bias=bias, mask=causal())

    x = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(0))
    layer = Biased()
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))
    tokens = torch.export.Dim("tokens", min=2, max=99)
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {2: tokens}})
    torch.testing.assert_close(program.module()(x[:, :, :3]), layer(x[:, :, :3]))


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: alibi_slopes(0), ShapeError, "alibi needs at least 1 head, got 0"),
        (lambda: alibi(2, 3, 3, slopes=torch.ones(3)), ShapeError, "slopes must be (2,), got (3,)"),
        (
            lambda: alibi(2, 3, 5),
            ShapeError,
            "3 queries and 5 keys: say where the queries stand, torch.arange(2, 5) for the last 3",
        ),
        (
            lambda: alibi(2, torch.zeros(3), 3),
            DtypeError,
            "queries are a length or integer positions, got torch.float32",
        ),
        (
            lambda: alibi(2, 3, torch.zeros(1, 1, 3, dtype=torch.int64)),
            ShapeError,
            "keys are a length, (N,) or (B or 1, N), got (1, 1, 3)",
        ),
        (lambda: relative(torch.zeros(8), 3, 3), ShapeError, "table must be (num_buckets, H), got (8,)"),
        (
            lambda: relative_buckets(torch.arange(3), num_buckets=32, max_distance=8),
            ShapeError,
            "32 buckets and max_distance=8 leave no room: max_distance > 8",
        ),
        (
            lambda: window_table(torch.zeros(10, 2), 2),
            ShapeError,
            "a window of 2 x 2 needs a table of (9, H), got (10, 2); resize_window_table() makes one from another "
            "window's",
        ),
        (
            lambda: resize_window_table(torch.zeros(10, 2), 2, 3),
            ShapeError,
            "the table of a 2 x 2 window is (9, H), got (10, 2)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, kind, text):
    with refused(text, kind):
        make()
