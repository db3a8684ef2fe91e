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


POOLS = {"mean": lambda x: x.flatten(2).mean(-1), "peak": lambda x: x.flatten(2).amax(-1)}


class Pooled(nn.Module):
    """A channel gate on (B, C, H, W) whose pools stand in a table outside of it."""

    def __init__(self, both: bool):
        super().__init__()
        self.both, self.one, self.two = both, nn.Linear(12, 6), nn.Linear(6, 12)

    def forward(self, x):
        seen = [self.two(self.one(pool(x)).tanh()) for pool in POOLS.values()]
        return x * (sum(seen) if self.both else seen[-1]).sigmoid()[..., None, None]


class Selected(nn.Module):
    """A soft choice between three convolutions on (B, C, H, W)."""

    def __init__(self, each: bool, channels: int = 10):
        super().__init__()
        self.paths = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=d, dilation=d) for d in (1, 2, 3))
        layers = [nn.Linear(channels, channels) for _ in range(3)]
        self.choose = nn.ModuleList(layers if each else layers[:1] * 3)

    def forward(self, x):
        seen = torch.stack([path(x).relu() for path in self.paths], 1)
        pooled = seen.sum(1).mean((2, 3))
        weights = torch.stack([layer(pooled) for layer in self.choose], 1).softmax(1)
        return (seen * weights[..., None, None]).sum(1)


GATES = [
    (Pooled, True, set()),
    (Pooled, False, {("ATT905", "error", "channel-branch-lost")}),
    (Selected, True, set()),
    (Selected, False, {("ATT405", "error", "gate-constant")}),
]


@pytest.mark.parametrize(("kind", "right", "told"), GATES)
def test_gates_in_which_a_part_stands_elsewhere_or_for_all(kind, right, told):
    report = check(kind(right), select=["ATT405", "ATT905"])
    assert {(f.rule, f.level, f.kind) for f in report.findings} == told


class Streamed(Plain):
    """Causal; stream=True goes on where the call before ended, until clear_stream()."""

    def __init__(self, whole: bool):
        super().__init__()
        self.whole, self.seen, self.held = whole, 0, None
        self.table = nn.Parameter(torch.randn(40, WIDTH))

    def clear_stream(self):
        self.seen, self.held = 0, None if self.whole else self.held

    def forward(self, x, stream=False):
        start = self.seen if stream else 0
        x = x + self.table[start : start + x.shape[1]]
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if stream:
            if self.held is not None:
                k, v = torch.cat([self.held[0], k], 2), torch.cat([self.held[1], v], 2)
            self.held, self.seen = (k, v), start + x.shape[1]
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("whole", "told"), [(True, set()), (False, {("ATT204", "error", "cache-stale")})])
def test_a_stream_that_a_method_of_its_own_name_clears(whole, told):
    report = check(Streamed(whole), select=["ATT203", "ATT204"])
    assert {(f.rule, f.level, f.kind) for f in report.findings} == told
