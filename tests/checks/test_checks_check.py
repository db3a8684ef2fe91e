"""regard.check: what counts as passed, what as not exercised; same seed, same report; any callable, any output."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from attention_to_check import Ahead, Crosstalk, Leaky, NoCall, Plain
from torch import nn

import regard
from regard.checks.case import NotExercised, Verdict
from regard.checks.check import check
from regard.checks.rule import Rule, catalog, selected
from regard.core.errors import DesignError, TargetError


def told(report):
    data = report.to_dict()
    data.pop("seconds")
    for outcome in data["outcomes"]:
        outcome.pop("seconds")
    return data


@pytest.mark.parametrize("make", [Leaky, Crosstalk])
def test_the_same_seed_gives_the_same_report(make):
    module = make()
    first, second = regard.check(module, seed=3), regard.check(module, seed=3)
    assert told(first) == told(second)


def test_another_seed_draws_other_inputs():
    module = Leaky()
    a, b = (regard.check(module, seed=s, select=["ATT101"]).findings[0].measured for s in (0, 1))
    assert a != b


def test_every_rule_has_one_outcome_and_the_counts_add_up():
    report = regard.check(Plain())
    assert [o.rule for o in report.outcomes] == [r.code for r in catalog()]
    counts = report.counts
    assert counts["checks"] == counts["passed"] + counts["failed"] + counts["questions"] + counts["not_exercised"]
    assert counts["passed"] > 20
    assert all(o.reason for o in report.outcomes if o.result == "not-exercised")
    assert report.ok


def test_rules_on_masks_caches_and_gates_are_not_passed_by_a_module_without_them():
    results = {o.rule: o for o in regard.check(Plain()).outcomes}
    for code in ("ATT101", "ATT105", "ATT203", "ATT204", "ATT306", "ATT502", "ATT601", "ATT803", "ATT901", "ATT904"):
        assert results[code].result == "not-exercised", code
    assert results["ATT101"].reason == "it takes no mask"
    assert results["ATT203"].reason == "no key-value cache was found"


def with_rules(monkeypatch, *functions):
    """regard.check with these functions for its catalogue."""
    rules = [Rule(f"ATT99{i}", f.__name__, (), f) for i, f in enumerate(functions)]
    monkeypatch.setattr("regard.checks.check.selected", lambda select, ignore: rules)


def test_a_rule_that_breaks_or_stops_is_never_counted_as_passed(monkeypatch):
    def breaks(case):
        raise ValueError("a shape it did not expect")

    def stops(case):
        raise NotExercised("nothing to look at")

    def holds(case):
        return None

    with_rules(monkeypatch, breaks, stops, holds)
    report = check(Plain())
    assert [o.result for o in report.outcomes] == ["not-exercised", "not-exercised", "passed"]
    assert report.outcomes[0].reason == "it did not run: ValueError: a shape it did not expect"
    assert report.outcomes[1].reason == "nothing to look at"
    assert report.counts["passed"] == 1


def test_a_report_in_which_no_rule_applied_is_not_ok(monkeypatch):
    def stops(case):
        raise NotExercised("nothing to look at")

    with_rules(monkeypatch, stops)
    report = check(Plain())
    assert (report.status, report.reason, report.ok) == ("not-exercised", "no rule applied to it", False)


def test_questions_are_counted_apart_and_leave_the_report_ok(monkeypatch):
    with_rules(monkeypatch, lambda case: Verdict("question", "is that meant?"))
    report = check(Plain())
    assert report.ok
    assert report.counts == {"checks": 1, "passed": 0, "failed": 0, "questions": 1, "not_exercised": 0}


def test_errors_come_before_warnings_and_questions(monkeypatch):
    def three(case):
        return [Verdict(level, level) for level in ("question", "error", "warning")]

    with_rules(monkeypatch, three)
    assert [f.level for f in check(Plain()).findings] == ["error", "warning", "question"]


def test_a_module_that_refuses_every_call_is_not_exercised_and_not_ok():
    report = regard.check(NoCall())
    assert (report.status, report.ok) == ("not-exercised", False)
    assert report.reason.startswith("no call runs: ")
    assert report.outcomes == []


def test_a_class_that_cannot_be_built_is_not_exercised_and_not_ok():
    class Needs(nn.Module):
        def __init__(self, connection):
            super().__init__()
            self.rows = connection.fetch("rows")

    report = regard.check(Needs)
    assert (report.status, report.ok) == ("not-exercised", False)
    assert report.reason.startswith("Needs could not be built: AttributeError: ")
    assert report.reason.endswith("Name its arguments with --init name=value")


def test_a_module_whose_plain_call_gives_nan_is_held_back_from_rules_that_compare():
    class Broken(Plain):
        def forward(self, x):
            return super().forward(x) / 0.0 * 0.0

    results = {o.rule: o for o in regard.check(Broken(), select=["ATT301", "ATT605"]).outcomes}
    assert results["ATT301"].result == "not-exercised"
    assert results["ATT301"].reason == "a plain call gives NaN or inf (see finite_output)"
    assert results["ATT605"].result == "failed"


def test_rules_are_chosen_by_code_or_name_and_left_out_likewise():
    assert {r.code[3] for r in selected(["ATT1", "future"], ["ATT101"])} == {"1", "2"}
    assert [r.name for r in selected(["future_leak"], None)] == ["future_leak"]
    assert "ATT101" not in {r.code for r in selected(None, ["padding_content"])}
    assert [o.rule for o in regard.check(Ahead(), select=["ATT201"]).outcomes] == ["ATT201"]


@pytest.mark.parametrize("where", ["select", "ignore"])
def test_a_prefix_that_begins_no_rule_is_refused(where):
    codes = [r.code for r in catalog()]
    words = f"no rule begins with 'ATT0'; `regard rule` lists the {len(codes)} rules from {codes[0]} to {codes[-1]}"
    with pytest.raises(DesignError) as caught:
        regard.check(Plain(), **{where: ["ATT0"]})
    assert str(caught.value) == words


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(TargetError, match=r"nowhere\.py"):
        regard.check("nowhere.py:Attention")


def test_outcomes_are_told_as_they_come_with_what_they_found():
    seen = []
    report = regard.check(Ahead(), select=["ATT201", "ATT301"], on_outcome=lambda o, found: seen.append((o, found)))
    assert [o for o, _ in seen] == report.outcomes
    assert [[f.rule for f in found] for _, found in seen] == [["ATT201"], []]


def split_kernel(q, k, v):
    """Attention on (B, H, T, D)."""
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def kernel_over_queries(q, k, v):
    """Attention on (B, H, T, D), normalised over the queries."""
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-2) @ v


def test_a_function_on_heads_is_checked_as_a_kernel():
    right, wrong = regard.check(split_kernel), regard.check(kernel_over_queries)
    assert right.status == "checked"
    assert right.inferred["inputs"]["q"]["layout"] == "BH(eads) LD"
    assert not [f for f in right.findings if f.level != "question"]
    assert "softmax-axis-query" in {f.kind for f in wrong.errors}


@dataclasses.dataclass
class Result:
    attention: torch.Tensor
    hidden: torch.Tensor


class Pair(NamedTuple):
    hidden: torch.Tensor
    attention: torch.Tensor


SHAPES = {
    "tuple": lambda y, w: (y, w),
    "list": lambda y, w: [w, y],
    "dict": lambda y, w: {"attention": w, "hidden": y},
    "dataclass": lambda y, w: Result(w, y),
    "named tuple": lambda y, w: Pair(y, w),
    "nested": lambda y, w: (y, {"weights": (w,)}),
}


class Returns(nn.Module):
    def __init__(self, make, axis: int = -1, dim: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.make, self.axis = make, axis

    def forward(self, x):
        y = x - x.mean(self.axis, keepdim=True)
        w = (self.q(y) @ self.k(y).mT * x.shape[-1] ** -0.5).softmax(-1)
        return self.make(w @ self.v(y), w)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_main_output_is_found_in_what_is_returned(shape):
    right, wrong = Returns(SHAPES[shape]), Returns(SHAPES[shape], axis=0)
    assert not regard.check(right, select=["ATT3"]).findings
    assert "ATT301" in {f.rule for f in regard.check(wrong, select=["ATT301"]).errors}


def test_a_class_a_factory_and_an_instance_give_the_same_findings():
    for target in (Leaky, lambda: Leaky(), Leaky()):
        assert [f.rule for f in regard.check(target, select=["ATT1"]).errors] == ["ATT101"]


def test_constructor_arguments_can_be_given():
    class Sized(Plain):
        def __init__(self, tag, dim=12):
            super().__init__({"a": 12, "b": 24}[tag], 3)

    report = regard.check(Sized, init={"tag": "b"}, select=["ATT301"])
    assert report.inferred["init"]["tag"] == "b"
    assert report.inferred["inputs"]["x"]["shape"][-1] == 24


def test_a_kernel_that_is_not_written_in_python_is_called_by_what_its_docstring_says():
    report = regard.check(F.scaled_dot_product_attention)
    assert report.status == "checked", report.reason
    assert report.inferred["inputs"]["query"]["layout"] == "BH(eads) LD"
    assert [m["meaning"] for m in report.inferred["masks"]] == ["True/1 = attend"]
    assert not report.findings
    assert report.counts["passed"] > 20


def test_a_module_whose_forward_names_no_argument_is_refused_in_words():
    class Nothing(nn.Module):
        def forward(self):
            return torch.zeros(3, 7, 8)

    report = regard.check(Nothing(), select=["ATT301"])
    assert (report.status, report.ok) == ("not-exercised", False)
    assert report.reason == "no call runs: its signature names no argument that could take a tensor"


class OfTwoSources(torch.nn.Module):
    """Keys of one stream and values of the other: torch's kernel reads past the end where their lengths differ."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, query, context):
        q, k, v = (t[:, None] for t in (self.q(query), self.k(context), self.v(query)))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)[:, 0]


def test_keys_and_values_of_two_lengths_never_reach_the_kernel():
    from regard.checks.subject import invoke
    from regard.core.errors import ShapeError

    module = OfTwoSources()
    with pytest.raises(ShapeError, match="7 keys and 5 values"):
        invoke(module, {"query": torch.randn(2, 5, 16), "context": torch.randn(2, 7, 16)})
    report = check(OfTwoSources())
    assert "ATT305" in {f.rule for f in report.findings if f.level == "error"}


class ReadsTheFirst(torch.nn.Module):
    """Neighbours by their number in the table of all items, without the items' offset: every item reads item 0."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = torch.nn.Linear(16, 16), torch.nn.Linear(16, 32)

    def forward(self, x):
        b, n, c = x.shape
        near = (torch.arange(n)[:, None] + torch.arange(3)) % n
        k, v = self.kv(x).reshape(b * n, 2 * c)[near.expand(b, n, 3)].chunk(2, -1)
        w = ((self.q(x)[:, :, None] * k).sum(-1) * c**-0.5).softmax(-1)
        return (w[..., None] * v).sum(2)


def test_what_reads_item_0_for_all_shows_in_another_item():
    found = check(ReadsTheFirst(), select=["ATT301"]).findings
    assert [f.level for f in found] == ["error"]
    assert not found[0].message.startswith("item 0 ")


class Capped(torch.nn.Module):
    """Heads of 4 channels, scores capped at 5."""

    def __init__(self, scale: float):
        super().__init__()
        self.scale, self.qkv = scale, torch.nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        z = 5.0 * torch.tanh(q @ k.mT * self.scale / 5.0)
        return (z.softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("scale", "kinds"), [(0.5, []), (2.0, ["scale-inverted"]), (1.0, ["scale-missing"])])
def test_the_scale_in_front_of_a_softcap_is_read_back(scale, kinds):
    assert [f.kind for f in check(Capped(scale), select=["ATT401"]).findings] == kinds


class CausalUntilPadded(torch.nn.Module):
    """A mask that hides nothing is dropped; one that hides something takes the place of the causal flag (or, right, joins it)."""

    def __init__(self, joined: bool):
        super().__init__()
        self.joined, self.qkv = joined, torch.nn.Linear(16, 48)

    def forward(self, x, key_padding_mask=None):
        q, k, v = (t[:, None] for t in self.qkv(x).chunk(3, -1))
        if key_padding_mask is None or not bool(key_padding_mask.any()):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0]
        keep = ~key_padding_mask[:, None, None]
        if self.joined:
            keep = keep & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)[:, 0]


@pytest.mark.parametrize("joined", [True, False])
def test_causality_that_goes_when_a_mask_hides_something_is_found(joined):
    found = check(CausalUntilPadded(joined), select=["ATT104", "ATT201"]).findings
    assert [(f.rule, f.kind) for f in found] == ([] if joined else [("ATT201", "causal-missing")])
