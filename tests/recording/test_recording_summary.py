"""The streamed summary equals the scores of the full map, for causal, padded, windowed and cross attention, in any tiling."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.recording import scores as full
from regard.recording.record import Record

CLOSE = 1e-4  # running sums of float32 weights
H, D = 3, 4


class Kernel(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **self.options)


class Open(Kernel):
    def forward(self, q, k, v):
        scores = q @ k.mT * D**-0.5
        if self.options.get("is_causal"):
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -torch.inf)
        if "attn_mask" in self.options:
            scores = scores.masked_fill(~self.options["attn_mask"], -torch.inf)
        return scores.softmax(-1) @ v


def draw(T, S, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(1, H, n, D, generator=g) for n in (T, S, S)]


def window(T, S):
    away = torch.arange(T)[:, None] + S - T - torch.arange(S)[None]
    return (away >= 0) & (away < 7)


CASES = {
    "plain": (40, 40, {}),
    "causal": (40, 40, {"is_causal": True}),
    "window": (40, 40, {"attn_mask": window(40, 40)}),
    "padding": (40, 40, {"attn_mask": (torch.arange(40) < 33)[None, :].expand(40, 40)}),
    "long": (150, 150, {"is_causal": True}),
    "cross": (10, 70, {}),
}


@pytest.mark.parametrize("kind", [Kernel, Open])
@pytest.mark.parametrize("tile", [1000, 1 << 22])
@pytest.mark.parametrize("case", CASES)
def test_every_score_equals_that_of_the_full_map(case, tile, kind, monkeypatch):
    from regard.recording import weighing

    monkeypatch.setattr(weighing, "TILE_BYTES", tile)
    T, S, options = CASES[case]
    ids = torch.randint(0, 6, (S,), generator=torch.Generator().manual_seed(1))
    segments = [("a", 0, 4), ("b", 4, 10)]
    with regard.capture(kind(**options), level="full", segments=segments, tokens=ids) as cap:
        cap.model(*draw(T, S))
    (record,) = cap.records
    weights = record.weights
    visible = torch.ones(T, S, dtype=torch.bool)
    visible = visible.tril() if options.get("is_causal") else options.get("attn_mask", visible)
    offset = 0
    expected = {
        "entropy_share": full.entropy_share(weights, visible).mean(-1), "span": full.span(weights), "sink": full.sink(weights),
        "entropy": full.entropy(weights).mean(-1), "max": weights.amax(-1).mean(-1), "sink_column": full.sink_column(weights),
        "self": full.at_distance(weights, 0, offset).mean(-1), "previous": full.at_distance(weights, -1, offset).mean(-1),
        "next": full.at_distance(weights, 1, offset).mean(-1), "distance": full.distance(weights, offset).mean(-1),
        "local": full.local(weights, offset).mean(-1), "first": full.boundary(weights)[0], "last": full.boundary(weights)[1],
        "vertical": full.vertical(weights), "hidden": full.hidden(weights, visible), "row_sum": weights.sum(-1).mean(-1),
    }  # fmt: skip
    if record.kind == "self":
        expected["duplicate"] = full.on_pairs(weights, full.duplicate_pairs(ids, T))
        expected["induction"] = full.on_pairs(weights, full.induction_pairs(ids, T))
    for name, value in expected.items():
        assert torch.allclose(record.scores[name], value, atol=CLOSE, rtol=CLOSE), name
    assert torch.allclose(record.profile, full.profile(weights, offset), atol=CLOSE)
    assert torch.allclose(record.received, weights.sum(1), atol=CLOSE)
    assert torch.equal(record.seen_by, visible.sum(0))
    _maps_agree(record, visible)
    if record.kind == "self":
        mass = torch.stack(
            [weights[:, a:b].mean(1)[:, c:d].sum(-1) for _, a, b in segments for _, c, d in segments], -1
        )
        assert torch.allclose(record.segment_map.flatten(1), mass, atol=CLOSE)


def _maps_agree(record: Record, visible):
    rows, keys = (list(pairwise(e)) for e in (record.query_edges, record.key_edges))
    even = visible / visible.sum(-1, keepdim=True)
    for i, (a, b) in enumerate(rows):
        for j, (c, d) in enumerate(keys):
            block = record.weights[:, a:b, c:d]
            assert torch.allclose(record.pooled[:, i, j], block.sum(-1).mean(1), atol=CLOSE)
            assert torch.allclose(record.pooled_max[:, i, j], block.amax((1, 2)), atol=CLOSE)
            assert abs(float(record.pooled_even[i, j] - even[a:b, c:d].sum(-1).mean())) < CLOSE


def test_rows_are_exact_and_their_largest_keys_come_first():
    with regard.capture(Kernel(is_causal=True), level="rows", queries=[3, 39]) as cap:
        cap.model(*draw(40, 40))
    with regard.capture(Kernel(is_causal=True), level="full") as whole:
        whole.model(*draw(40, 40))
    record, expected = cap.records[0], whole.records[0].weights
    assert record.rows.tolist() == [3, 39]
    assert torch.allclose(record.row_weights, expected[:, [3, 39]], atol=1e-6)
    assert torch.allclose(record.row(39), expected[:, 39], atol=1e-6)
    assert record.row(5) is None
    assert torch.allclose(record.top_values, expected[:, [3, 39]].topk(8, -1).values, atol=1e-6)


def test_sampled_nucleus_is_the_mean_of_those_rows():
    with regard.capture(Kernel(), level="full") as cap:
        cap.model(*draw(32, 32))
    (record,) = cap.records
    assert torch.allclose(record.scores["nucleus_rows"], full.nucleus(record.weights).float().mean(-1), atol=1e-5)


def test_head_distance_is_zero_for_equal_heads_and_largest_for_heads_that_share_no_key():
    one = torch.eye(4)[None].repeat(2, 1, 1)
    apart = full.head_distance(torch.stack([torch.eye(4), torch.eye(4).roll(1, -1)]), without_first=False)
    assert full.head_distance(one).abs().max() < 1e-6
    assert float(apart[0, 1]) == pytest.approx(torch.tensor(2.0).log().sqrt().item(), abs=1e-6)


def test_output_share_through_a_projection_counts_what_reaches_the_model():
    output = torch.ones(2, 3, 4)
    project = torch.zeros(5, 8)
    project[:, :4] = 1.0
    assert full.output_share(output).tolist() == [0.5, 0.5]
    assert full.output_share(output, project).tolist() == [1.0, 0.0]
