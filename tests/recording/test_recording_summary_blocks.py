"""Long layers, summed in blocks from the kernel's own row sums, give the numbers of the full map, and of the slower way."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.recording import summary_blocks

CLOSE = 1e-4  # running sums of float32 weights
D = 4
TENSORS = ("received", "seen_by", "pooled", "pooled_max", "pooled_even", "profile", "segment_map")


class Kernel(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True)


def draw(H, Hkv, T, S, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, h, n, D, generator=g, dtype=dtype) * 2 for h, n in ((H, T), (Hkv, S), (Hkv, S))]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows and keys; how many calls were summed so is counted."""
    for name, value in {"LONG": 8, "ROWS": 16, "KEYS": 24}.items():
        monkeypatch.setattr(summary_blocks, name, value)
    used = []
    whole = summary_blocks.add_in_blocks

    def counted(*given):
        used.append(whole(*given))
        return used[-1]

    monkeypatch.setattr("regard.recording.layers.add_in_blocks", counted)
    return used


def records(level, inputs, causal, **options):
    with regard.capture(Kernel(causal), level=level, **options) as cap:
        cap.model(*inputs)
    return cap.records


SIZES = [(4, 2, 150, 150), (3, 3, 64, 64), (2, 1, 97, 97), (2, 2, 400, 400)]
CASES = [
    *((s, c) for s in SIZES for c in (True, False)),
    ((2, 2, 40, 131), False),
]  # the flag is aligned at the top left


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("sizes", "causal"), CASES)
def test_blocks_say_what_the_full_map_says(sizes, causal, dtype, small_blocks):
    H, Hkv, T, S = sizes
    inputs = draw(H, Hkv, T, S, dtype=dtype)
    ids = torch.randint(0, 6, (S,), generator=torch.Generator().manual_seed(1))
    options = {"segments": [("a", 0, 4), ("b", 4, 30), ("c", 30, 40)], "tokens": ids}
    slow, fast = records("full", inputs, causal, **options), records("summary", inputs, causal, **options)
    assert small_blocks == [True, True]
    for expected, got in zip(slow, fast, strict=True):
        assert got.causal == expected.causal
        assert set(got.scores) == set(expected.scores)
        for name, value in expected.scores.items():
            assert torch.allclose(got.scores[name], value, atol=CLOSE, rtol=CLOSE, equal_nan=True), name
        for name, value in expected.series.items():
            assert torch.allclose(got.series[name], value, atol=CLOSE, rtol=CLOSE), name
        for name in TENSORS:
            value = getattr(expected, name)
            if value is None:
                assert getattr(got, name) is None
            else:
                assert torch.allclose(getattr(got, name).double(), value.double(), atol=CLOSE, rtol=CLOSE), name


def test_chosen_heads_are_those_heads(small_blocks):
    inputs = draw(4, 2, 64, 64)
    every, some = records("summary", inputs, True), records("summary", inputs, True, heads=[1, 3])
    assert small_blocks == [True] * 4
    for all_heads, chosen in zip(every, some, strict=True):
        assert torch.allclose(chosen.scores["entropy"], all_heads.scores["entropy"][[1, 3]])
        assert torch.allclose(chosen.received, all_heads.received[[1, 3]])


def test_sums_that_do_not_fit_the_scores_are_not_believed(small_blocks, monkeypatch):
    inputs = draw(2, 2, 64, 64)
    expected = records("full", inputs, True)
    monkeypatch.setattr(
        "regard.recording.summary_blocks.row_weights", lambda q, k, lse, rows, **_: q.new_ones(2, len(rows), 64)
    )
    got = records("summary", inputs, True)
    assert small_blocks == [False, False]
    assert torch.allclose(got[0].scores["entropy"], expected[0].scores["entropy"], atol=CLOSE)


def test_what_has_a_mask_or_sixteen_bits_takes_the_way_of_whole_rows(small_blocks):
    q, k, v = draw(2, 2, 64, 64)
    records("summary", [x.bfloat16() for x in (q, k, v)], True)

    class Masked(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(64, 64).tril().bool())

    with regard.capture(Masked()) as cap:
        cap.model(q, k, v)
    assert small_blocks == []
    assert cap.records[0].causal
