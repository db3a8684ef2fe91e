"""What missed faults taught the checker: relations that decide, each on the smallest thing that shows it."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.checks.case import NotExercised
from regard.checks.catalog import rotary_positions
from regard.checks.causality import NAMED
from regard.checks.check import check
from regard.checks.evidence import Evidence
from regard.checks.inner_gates import inner_gates
from regard.checks.plan import read_signature
from regard.checks.prepare import prepare
from regard.checks.sites import row_sources
from regard.checks.token_rows import scrambled


def errors(report) -> list[str]:
    assert report.status == "checked", report.reason
    return [f.rule for f in report.findings if f.level != "question"]


def test_numbers_of_words_are_lengths_and_a_plain_number_is_none():
    def forward(x, n_words, token_counts=None, num_frames: int = 8):
        return x

    assert read_signature(forward).lengths == ["n_words", "token_counts"]


@pytest.mark.parametrize(
    ("name", "doc", "state"),
    [
        ("valid", "", True),
        ("src_valid_mask", "", True),
        ("visible", "", True),
        ("mask", "", False),
        ("keep_prob", "", False),
        ("valid", "valid: additive, 0 or -inf", False),
    ],
)
def test_a_mask_named_for_a_state_is_never_a_bias_unless_the_text_says_so(name, doc, state):
    assert Evidence("Layer", doc, "").names_a_state(name) is state


@pytest.mark.parametrize(
    ("name", "causal"),
    [
        ("FastCausalAttention", True),
        ("MyCausalSelfAttention", True),
        ("NonCausalAttention", False),
        ("SemiCausalLinearAttention", False),
        ("DeconfoundedCausalGraph", False),
        ("AcausalAttention", False),
    ],
)
def test_capitals_begin_words_in_the_name_of_a_class(name, causal):
    assert bool(re.search(NAMED, name)) is causal


class ChannelNorm(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=1)


class ChannelSwish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.5 * x)


class ChannelGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        return x * self.fc(x.mean((2, 3), keepdim=True)).sigmoid()


class Block(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.conv, self.part = nn.Conv2d(8, 8, 3, padding=1), part

    def forward(self, x):
        return x + self.part(self.conv(x))


@pytest.mark.parametrize(("part", "read"), [(ChannelNorm, []), (ChannelSwish, []), (ChannelGate, ["part"])])
def test_a_norm_and_an_activation_inside_a_block_are_no_gates(part, read):
    assert [path for path, _ in inner_gates(prepare(Block(part())))] == read


class Pixels(nn.Module):
    """(batch, channels, height, width) -> the same"""

    def __init__(self, moved, wide=1):
        super().__init__()
        self.moved, self.wide = moved, wide
        self.norm = nn.GroupNorm(4, 16)
        self.qkv = nn.Conv2d(16, 48, 1) if wide > 1 else nn.Linear(16, 48)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x)
        y = self.qkv(y) if self.wide > 1 else y
        y = y.flatten(2).mT if self.moved else y.reshape(b, h * w, c * self.wide)
        q, k, v = (y if self.wide > 1 else self.qkv(y)).chunk(3, -1)
        return x + F.scaled_dot_product_attention(q, k, v).mT.reshape(b, c, h, w)


@pytest.mark.parametrize("wide", [1, 3])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_rows_behind_a_norm_are_told_from_pieces_of_memory(wide, seed):
    torch.manual_seed(seed)
    wrong, right = (prepare(Pixels(moved, wide)) for moved in (False, True))
    assert scrambled(wrong, row_sources(wrong)) is not None
    assert scrambled(right, row_sources(right)) is None


class Window(nn.Module):
    """(batch, time, dim) -> (batch, time, dim)"""

    def __init__(self, more):
        super().__init__()
        self.more, self.qkv = more, nn.Linear(12, 36)

    def forward(self, x, window=3):
        q, k, v = self.qkv(x).chunk(3, -1)
        at = torch.arange(x.shape[1])
        gap = at[:, None] - at
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(gap >= 0) & (gap < window + self.more))


@pytest.mark.parametrize(("more", "asked"), [(0, []), (1, ["ATT807"])])
def test_a_window_that_the_call_takes_by_default_is_compared_with_what_is_seen(more, asked):
    report = check(Window(more), select=["ATT807"])
    assert (errors(report), [f.rule for f in report.findings]) == ([], asked)


class Visits(nn.Module):
    """forward(x (batch, n, 12), present (batch, n)): a number for each visit of a patient, on the way to the scores."""

    def __init__(self, filled):
        super().__init__()
        self.filled, self.qkv = filled, nn.Linear(12, 36)

    def forward(self, x, present=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if present is not None and self.filled:
            scores = scores.masked_fill(present[:, None].to(scores.dtype) == 0, -torch.inf)
        elif present is not None:
            row = present[:, None].to(scores.dtype)
            scores = scores + row
        return scores.softmax(-1) @ v


@pytest.mark.parametrize(("filled", "asked"), [(True, []), (False, [("question", "mask-added-as-01")])])
def test_a_number_per_token_that_is_cast_and_added_is_asked_about(filled, asked):
    report = check(Visits(filled), select=["ATT101"])
    assert errors(report) == []
    assert [(f.level, f.kind) for f in report.findings] == asked


class Heads(nn.Module):
    def __init__(self, turn):
        super().__init__()
        self.turn, self.qk, self.v = turn, nn.Linear(16, 32), nn.Linear(16, 16)

    def rotated(self, t):
        exact = torch.promote_types(t.dtype, torch.float32)
        angle = torch.arange(t.shape[1], dtype=exact)[:, None] * 0.3 ** torch.arange(8, dtype=exact)
        a, b = t.chunk(2, -1)
        cos, sin = angle.cos().to(t), angle.sin().to(t)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x):
        q, k = (self.rotated(t) if self.turn else t for t in self.qk(x).chunk(2, -1))
        return F.scaled_dot_product_attention(q, k, self.v(x))


@pytest.mark.parametrize(("turn", "tried"), [(False, [None]), (True, [None, 40, 300, 300])])
def test_many_tokens_are_run_only_where_few_are_rotated(turn, tried, monkeypatch):
    asked, places = [], rotary_positions.places
    monkeypatch.setattr(
        rotary_positions, "places", lambda case, tokens: asked.append(tokens) or places(case, tokens=tokens)
    )
    if turn:
        assert rotary_positions.rotary_distance(prepare(Heads(turn))) is None
    else:
        with pytest.raises(NotExercised, match="no rotation of queries and keys was seen"):
            rotary_positions.rotary_distance(prepare(Heads(turn)))
    assert asked == tried
