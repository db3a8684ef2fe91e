"""The plainest self-attention with one line wrong at a time: what is told of it, and that the right line gets nothing."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checks.check import check

HEADS, WIDTH = 3, 24


class Plain(nn.Module):
    """Self-attention on (B, L, 24) with three heads; a twin overrides what stands between the projections."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.places(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def places(self, x: Tensor) -> Tensor:
        return x

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT * q.shape[-1] ** -0.5

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.scores(q, k).softmax(-1) @ v


class OneHead(Plain):
    def attend(self, q, k, v):
        return self.scores(q, k).softmax(-1)[:, :1] @ v


class KeysForValues(Plain):
    def attend(self, q, k, v):
        return self.scores(q, k).softmax(-1) @ k


class Detached(Plain):
    def attend(self, q, k, v):
        return self.scores(q, k).softmax(-1).detach() @ v


class AllPairs(Plain):
    def attend(self, q, k, v):
        s = self.scores(q, k)
        return s.flatten(2).softmax(-1).view_as(s) @ v


class OnesAdded(Plain):
    def attend(self, q, k, v):
        past = torch.ones(q.shape[-2], q.shape[-2], dtype=q.dtype).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=past)


class OnesHide(Plain):
    def attend(self, q, k, v):
        past = torch.ones(q.shape[-2], q.shape[-2]).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=past.bool())


class PastHidden(Plain):
    def attend(self, q, k, v):
        past = torch.ones(q.shape[-2], q.shape[-2]).tril().bool()
        return self.scores(q, k).masked_fill(past, -1e9).softmax(-1) @ v


class FirstHeadCausal(Plain):
    def attend(self, q, k, v):
        s = self.scores(q, k)
        hidden = torch.zeros_like(s, dtype=torch.bool)
        hidden[:, 0] = torch.ones(s.shape[-2:]).triu(1).bool()
        return s.masked_fill(hidden, -1e9).softmax(-1) @ v


class RowsBiased(Plain):
    keys = False

    def attend(self, q, k, v):
        place = torch.arange(q.shape[-2], dtype=q.dtype)
        slope = 2.0 ** -torch.arange(1, HEADS + 1, dtype=q.dtype)[:, None, None]
        far = place[:, None] - place[None] if self.keys else place[:, None]
        return (self.scores(q, k) - slope * far).softmax(-1) @ v


class KeysBiased(RowsBiased):
    keys = True


class Sharpened(Plain):
    """Scores are multiplied by a number that goes with the query's place: a design."""

    def scores(self, q, k):
        longer = torch.log(torch.arange(2, q.shape[-2] + 2, dtype=q.dtype))[:, None]
        return super().scores(q, k) * longer


class DroppedScores(Plain):
    def attend(self, q, k, v):
        return F.dropout(self.scores(q, k), 0.2, self.training).softmax(-1) @ v


class DroppedWeights(Plain):
    def attend(self, q, k, v):
        return F.dropout(self.scores(q, k).softmax(-1), 0.2, self.training) @ v


class PlacesOfItems(Plain):
    """Reads x as (batch, tokens, channels)."""

    axis = 0

    def places(self, x):
        channels = x.shape[2]
        count = x.shape[self.axis]
        angle = torch.arange(count, dtype=x.dtype)[:, None] * 0.5 ** torch.arange(channels, dtype=x.dtype)
        return x + (angle.sin()[:, None] if self.axis == 0 else angle.sin())


class PlacesOfTokens(PlacesOfItems):
    """Reads x as (batch, tokens, channels)."""

    axis = 1


TOLD = {
    Plain: set(),
    OneHead: {("ATT707", "error", "unused-parameters")},
    KeysForValues: {("ATT707", "error", "unused-parameters")},
    Detached: {("ATT707", "error", "gradient-cut")},
    AllPairs: {("ATT402", "error", "softmax-axis-query")},
    OnesAdded: {("ATT201", "error", "mask-added-as-01")},
    OnesHide: set(),
    PastHidden: {("ATT201", "error", "causal-flipped")},
    FirstHeadCausal: {("ATT201", "question", "causal-missing")},
    RowsBiased: {("ATT809", "error", "relative-index-collision")},
    KeysBiased: set(),
    Sharpened: set(),
    DroppedScores: {("ATT507", "warning", "dropout-wrong-place")},
    DroppedWeights: set(),
    PlacesOfItems: {("ATT313", "error", "batch-first")},
    PlacesOfTokens: set(),
}


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_what_is_told_of_a_plain_attention(kind):
    report = check(kind(), select=["ATT201", "ATT313", "ATT402", "ATT507", "ATT707", "ATT808", "ATT809"])
    assert report.status == "checked", report.reason
    assert {(f.rule, f.level, f.kind) for f in report.findings} == TOLD[kind]


class Cached(Plain):
    """Causal; with use_cache=True the cache comes after the output, which otherwise comes alone."""

    late = True

    def forward(self, x, past=None, use_cache=False):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        offset = k.shape[2] - q.shape[2] if self.late else 0
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(offset)
        out = self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))
        return (out, (k, v)) if use_cache else out


class CachedFromTheFirst(Cached):
    late = False


@pytest.mark.parametrize(
    ("kind", "told"), [(Cached, set()), (CachedFromTheFirst, {("ATT203", "error", "causal-alignment")})]
)
def test_a_cache_that_comes_with_the_output_on_demand_is_used(kind, told):
    report = check(kind(), select=["ATT203"])
    assert [o.result for o in report.outcomes] == ["failed" if told else "passed"]
    assert {(f.rule, f.level, f.kind) for f in report.findings} == told


class Columns(nn.Module):
    """x: [batch, columns] numbers, one for each column of a table."""

    def __init__(self, first: bool, columns: int = 8, width: int = 15):
        super().__init__()
        self.weight, self.shift = nn.Parameter(torch.randn(columns, width)), nn.Parameter(torch.randn(columns, width))
        self.mix = nn.MultiheadAttention(width, 3, batch_first=first)

    def forward(self, x):
        rows = x[..., None] * self.weight + self.shift
        return rows + self.mix(rows, rows, rows, need_weights=False)[0]


@pytest.mark.parametrize(("first", "told"), [(True, set()), (False, {("ATT302", "error", "batch-first")})])
def test_a_table_of_numbers_whose_rows_are_the_batch(first, told):
    report = check(Columns(first), select=["ATT301", "ATT302"])
    assert {(f.rule, f.level, f.kind) for f in report.findings} == told
