"""Sequences that come a piece at a time: methods beside forward, caches named for their parameter, and the cause that is told."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.checks.check import check
from regard.checks.prepare import prepare


class Steps(nn.Module):
    """(batch, time, dim) -> (batch, time, dim)"""

    def __init__(self, factor=1.0):
        super().__init__()
        self.factor, self.qkv = factor, nn.Linear(12, 36)
        self.past = None

    def reset(self):
        self.past = None

    def attend(self, x, past):
        q, k, v = self.qkv(x).chunk(3, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        n, m = q.shape[1], k.shape[1]
        scores = q @ k.mT / 12**0.5
        return scores.masked_fill(torch.ones(n, m).tril(m - n) == 0, -torch.inf).softmax(-1) @ v, (k, v)

    def forward(self, x):
        return self.attend(x, None)[0]


class WithStep(Steps):
    def step(self, x):
        y, self.past = self.attend(x, self.past)
        return self.factor * y


class WithStepOfOtherNames(Steps):
    def decode_step(self, new_token):
        y, self.past = self.attend(new_token, self.past)
        return y


class WithExtend(Steps):
    def extend(self, x):
        y, self.past = self.attend(x, self.past)
        return y + 1


@pytest.mark.parametrize(
    ("module", "method"),
    [(WithStep(), "step"), (WithStepOfOtherNames(), "decode_step"), (WithExtend(), None), (Steps(), None)],
)
def test_a_method_that_begins_like_forward_and_remembers_takes_the_pieces(module, method):
    cache = prepare(module).cache
    assert (cache and cache.method) == method
    assert cache is None or cache.describe()["method"] == method


def test_a_step_that_begins_in_another_way_promises_nothing():
    assert prepare(WithStep(factor=0.5)).cache is None


class Distances(nn.Module):
    """Causal (batch, time, dim); `memory` is a dict that the call fills."""

    def __init__(self, from_past):
        super().__init__()
        self.from_past, self.qkv = from_past, nn.Linear(12, 36)
        self.bias = nn.Parameter(torch.randn(9))

    def forward(self, x, memory=None):
        q, k, v = (t[:, None] for t in self.qkv(x).chunk(3, -1))
        if memory is not None:
            if memory:
                k, v = torch.cat([memory["k"], k], 2), torch.cat([memory["v"], v], 2)
            memory.update(k=k, v=v)
        n, m = q.shape[2], k.shape[2]
        gap = torch.arange(m - n if self.from_past else 0, m if self.from_past else n)[:, None] - torch.arange(m)
        scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / 12**0.5 + self.bias[gap.clamp(0, 8)]
        scores = scores.masked_fill(torch.ones(n, m).tril(m - n) == 0, -torch.inf)
        return torch.einsum("bhnm,bhmd->bhnd", scores.softmax(-1), v)[:, 0]


@pytest.mark.parametrize(("from_past", "kinds"), [(True, []), (False, ["cache-position-bias"])])
def test_a_first_step_of_one_key_hides_no_cause(from_past, kinds):
    report = check(Distances(from_past), select=["ATT203"])
    assert report.status == "checked", report.reason
    assert [f.kind for f in report.findings] == kinds


class Powers(nn.Module):
    """(batch, regions, dim) -> the same"""

    def __init__(self, by_sum):
        super().__init__()
        self.by_sum, self.qkv = by_sum, nn.Linear(12, 36)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT / 12**0.5
        if not self.by_sum:
            return scores.softmax(-1) @ v * x.exp() / (1 + x.exp())
        return (scores.exp() / scores.exp().sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize(("by_sum", "level"), [(True, "error"), (False, "warning")])
def test_an_overflow_is_an_error_where_a_softmax_would_have_an_answer(by_sum, level):
    report = check(Powers(by_sum), select=["ATT604"])
    assert [f.level for f in report.findings] == [level]
