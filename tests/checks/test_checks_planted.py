"""Every rule has a planted bug that it finds, and a twin, one line away, that it passes: a check that cannot fail does not land."""

from __future__ import annotations

import difflib
import inspect

import pytest
import torch
from planted_bugs import FILES, asked, examined, loud, planted, quiet

from regard.checks.rule import catalog

RULES = {rule.name: rule for rule in catalog()}


def test_every_rule_of_the_catalogue_has_a_planted_bug_and_nothing_else_is_planted():
    assert sorted(FILES) == sorted(RULES)


@pytest.mark.parametrize("name", FILES)
def test_the_rule_finds_its_bug_and_passes_the_twin(name):
    code = RULES[name].code
    if code in asked(name):
        found, passed = quiet(examined(name, "wrong", select=[code])), quiet(examined(name, "right", select=[code]))
    else:
        found, passed = loud(examined(name, "wrong", select=[code])), loud(examined(name, "right", select=[code]))
    assert code in planted(name).RULES | asked(name)
    assert (found, passed) == ({code}, set())


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_bug_is_found_by_exactly_the_rules_that_should_find_it(name):
    report = examined(name, "wrong")
    assert report.status == "checked", report.reason
    assert loud(report) == planted(name).RULES
    assert asked(name) <= quiet(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_twin_has_no_error_no_warning_and_the_rule_looked_at_it(name):
    report = examined(name, "right")
    assert report.status == "checked", report.reason
    assert not loud(report)
    assert not asked(name) & quiet(report)
    assert next(o.result for o in report.outcomes if o.name == name) == "passed"


@pytest.mark.parametrize("name", FILES)
def test_the_twins_are_built_alike_and_differ_in_few_lines(name):
    file = planted(name)
    torch.manual_seed(0)
    wrong, right = file.wrong(), file.right()
    if isinstance(wrong, type(right)):  # the bug overrides what is wrong: the rest is the twin's
        lines = inspect.getsource(type(wrong)).splitlines()
        assert len(lines) <= 16
    else:
        pair = (inspect.getsource(type(m)).splitlines()[1:] for m in (right, wrong))
        assert sum(line[:2] in ("+ ", "- ") for line in difflib.ndiff(*pair)) <= 4
