"""Right modules of unusual designs that were once blamed, each with what it must not be told."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.checks.check import check

WIDTH = 18


def softmax_attention(q, k, v):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


class ActorAndCritic(nn.Module):
    """Entities (B, N, F) attend to each other; scores for actions and one value of the state come out."""

    def __init__(self):
        super().__init__()
        self.qkv, self.action, self.value = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 1)

    def forward(self, entities):
        h = softmax_attention(*self.qkv(entities).chunk(3, -1))
        return self.action(h), self.value(h.mean(1)).squeeze(-1)


class Matches(nn.Module):
    """Points of two clouds, (B, N, C) and (B, M, C), matched by both softmaxes of their scores."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, left, right):
        scores = self.one(left) @ self.one(right).mT * WIDTH**-0.5
        return left + (scores.softmax(-2) * scores.softmax(-1)) @ self.two(right)


class Smoothed(nn.Module):
    """Causal; queries and keys are read off a short causal convolution, and a bias falls with the distance."""

    def __init__(self):
        super().__init__()
        self.smooth = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3) for _ in range(2))
        self.read = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k = (f(F.pad(x.mT, (2, 0))).mT for f in self.smooth)
        place = torch.arange(x.shape[1])
        far = (place[:, None] - place).to(x.dtype)
        scores = q @ k.mT * WIDTH**-0.5 - 0.25 * far
        return scores.masked_fill(far < 0, float("-inf")).softmax(-1) @ self.read(x)


class Compressed(nn.Module):
    """Causal attention that keeps a memory of compressed states: every two states become one."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.shrink = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, memory=None):
        seen = x if memory is None else torch.cat([memory, x], 1)
        k, v = self.kv(seen).chunk(2, -1)
        keep = torch.ones(x.shape[1], seen.shape[1], dtype=torch.bool).tril(seen.shape[1] - x.shape[1])
        out = F.scaled_dot_product_attention(self.q(x), k, v, attn_mask=keep)
        whole = x[:, : x.shape[1] // 2 * 2].unflatten(1, (-1, 2)).flatten(2)
        rest = x[:, x.shape[1] // 2 * 2 :]
        new = torch.cat([self.shrink(whole), rest], 1)
        return out, (new if memory is None else torch.cat([memory, new], 1))


class Patches(nn.Module):
    """A classifier of images whose table of positions fits 3 x 5 patches and a token of the class."""

    def __init__(self):
        super().__init__()
        self.cut, self.qkv = nn.Conv2d(3, WIDTH, 4, 4), nn.Linear(WIDTH, 3 * WIDTH)
        self.first, self.place = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 16, WIDTH))

    def forward(self, image):
        x = self.cut(image).flatten(2).mT
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.place
        return softmax_attention(*self.qkv(x).chunk(3, -1))[:, 0]


@pytest.mark.parametrize(
    "kind", [ActorAndCritic, Matches, Smoothed, Compressed, Patches], ids=lambda kind: kind.__name__
)
def test_a_right_design_is_called_and_gets_no_error_and_no_warning(kind):
    report = check(kind())
    assert report.status == "checked", report.reason
    assert not [(f.rule, f.level, f.message) for f in report.findings if f.level != "question"]


def test_a_memory_that_loses_something_by_its_own_words_is_asked_about():
    report = check(Compressed(), select=["ATT203"])
    assert [(f.level, "ompressed" in f.message) for f in report.findings] == [("question", True)]


class Difference(nn.Module):
    """Weights of one pair of queries and keys, less a share of those of another; the caller gives the share."""

    def __init__(self, apart: bool):
        super().__init__()
        self.apart, self.v = apart, nn.Linear(WIDTH, WIDTH)
        self.fused = nn.Linear(WIDTH, 4 * WIDTH)
        self.q2, self.k2 = (nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)) if apart else (None, None)
        if apart:
            self.fused = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x, share: float):
        parts = self.fused(x).chunk(2 if self.apart else 4, -1)
        q, k = parts[:2]
        other_q, other_k = (self.q2(x), self.k2(x)) if self.apart else parts[2:]
        first, second = ((a @ b.mT * WIDTH**-0.5).softmax(-1) for a, b in ((q, k), (other_q, other_k)))
        return (first - share * second) @ self.v(x)


@pytest.mark.parametrize("apart", [True, False])
def test_a_factor_that_the_caller_gives_is_not_zero_alone(apart):
    report = check(Difference(apart), select=["ATT701", "ATT707"])
    assert {o.result for o in report.outcomes} == {"passed"}


class AnglesFromOutside(nn.Module):
    """Rotary attention whose table of angles, (T, channels / 2), comes with the call."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, rope_freqs):
        q, k, v = self.qkv(x).chunk(3, -1)
        angles = rope_freqs.view(x.shape[1], WIDTH // 2)
        cos, sin = angles.cos(), angles.sin()

        def turn(t):
            a, b = t.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        return softmax_attention(turn(q), turn(k), v)


def test_angles_that_the_checker_made_up_are_not_held_to_keep_distances():
    report = check(AnglesFromOutside(), select=["ATT801"])
    assert [(o.result, o.reason) for o in report.outcomes] == [
        ("not-exercised", "its angles come from outside (rope_freqs) and were made up")
    ]
