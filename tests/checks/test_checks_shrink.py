"""Findings come with the smallest batch and length that still show them."""

from __future__ import annotations

import time

import pytest
import torch
from attention_to_check import Ahead, Crosstalk, Leaky
from torch import nn

import regard
from regard.checks.case import Case, Verdict
from regard.checks.prepare import prepare
from regard.checks.rule import Rule
from regard.checks.shrink import shrink


def rule_that_needs(batch: int, tokens: int):
    """A rule that fails on inputs of at least this size, and says the size."""

    def needs(case: Case) -> Verdict | None:
        source = case.call.sources[case.call.query]
        if source.batch < batch or source.tokens < tokens:
            return None
        return Verdict("error", f"{source.batch} x {source.tokens}", kind="too-large")

    return Rule("ATT999", "needs", (), needs)


@pytest.fixture(scope="module")
def case():
    return prepare(Leaky())


@pytest.mark.parametrize(("batch", "tokens"), [(1, 2), (2, 3), (1, 5), (3, 2)])
def test_the_smallest_failing_size_is_found(case, batch, tokens):
    rule = rule_that_needs(batch, tokens)
    small, verdict = shrink(case, rule, rule.function(case))
    assert verdict.message == f"{batch} x {tokens}"
    assert small.call.sources["x"].shape[:2] == (batch, tokens)
    assert case.call.sources["x"].shape[0] == 3


def test_a_verdict_of_another_kind_is_no_smaller_form_of_this_one(case):
    def changes_its_mind(case: Case) -> Verdict:
        tokens = case.call.sources["x"].tokens
        return Verdict("error", str(tokens), kind="long" if tokens > 4 else "short")

    rule = Rule("ATT999", "changes_its_mind", (), changes_its_mind)
    _, verdict = shrink(case, rule, rule.function(case))
    assert (verdict.kind, verdict.message) == ("long", "5")


def test_a_rule_that_breaks_on_small_inputs_keeps_the_first_size_that_works(case):
    def breaks(case: Case) -> Verdict:
        if case.call.sources["x"].tokens < 4:
            raise IndexError("too short")
        return Verdict("error", str(case.call.sources["x"].tokens))

    rule = Rule("ATT999", "breaks", (), breaks)
    assert shrink(case, rule, rule.function(case))[1].message == "4"


def test_where_only_the_known_size_fails_the_case_stays_as_it_is(case):
    source = case.call.sources["x"]
    rule = rule_that_needs(source.batch, source.tokens)
    small, _ = shrink(case, rule, rule.function(case))
    assert small is case


def test_a_slow_rule_is_not_shrunk_for_ever(case, monkeypatch):
    def slow(case: Case) -> Verdict | None:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            torch.ones(10).sum()
        return None

    monkeypatch.setattr("regard.checks.shrink.SECONDS", 0.1)
    start = time.process_time()
    small, _ = shrink(case, Rule("ATT999", "slow", (), slow), Verdict("error", "first"))
    assert small is case
    assert time.process_time() - start < 1.0


def test_found_faults_are_shown_on_few_tokens_and_items():
    ahead = regard.check(Ahead(), select=["ATT201"]).findings[0]
    assert ahead.example.startswith("length 4: ")  # with fewer, "off by one" cannot be told from "no mask"
    talk = regard.check(Crosstalk(), select=["ATT301"]).findings[0]
    assert talk.example == "batch 2, length 2, random tokens"
    leaky = regard.check(Leaky(), select=["ATT101"]).findings[0]
    assert leaky.example.startswith("batch 1, ")


def test_a_module_for_one_length_is_shrunk_in_the_batch_only():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Parameter(torch.randn(5, 5))
            self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            y = x - x.mean(0, keepdim=True)
            return (self.q(y) @ self.k(y).mT / 8**0.5 + self.mix).softmax(-1) @ self.v(y)

    report = regard.check(Fixed(), design=regard.Design(layout="BLD", inputs={"x": (4, 5, 8)}), select=["ATT301"])
    assert report.findings[0].example == "batch 2, length 5, random tokens"
