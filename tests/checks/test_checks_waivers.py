"""A waiver sets a finding aside with its reason, and fails when it gives none or excuses nothing."""

import json

import pytest

from regard.checks import baseline
from regard.checks.report import Finding, Outcome, Report
from regard.checks.waivers import Waiver, apply, argument_waiver, comment_waivers, set_aside, table_waivers, waivers_for
from regard.core.errors import DesignError

CODES = ["ATT301", "ATT601"]
SOURCE = '''
class First(Base):  # regard: ignore[ATT601] float32 only: see [notes]
    """A text with # regard: ignore[ATT301] in it."""
    def forward(self, x):
        return x  # regard: ignore[ATT301] not on the head

@decorated  # regard: ignore[ATT301, ATT601] both
class Second(
    Base,
):
    class Inner:  # regard: ignore[ATT301]
        pass
'''


def report(result="failed", rule="ATT601", level="error", where=None, **rest):
    findings = [Finding(rule, "name", level, "it is wrong", where=where)] if result != "passed" else []
    return Report("model.py:First", outcomes=[Outcome(rule, "name", result)], findings=findings, **rest)


@pytest.fixture
def model(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    return file


def test_comments_count_on_the_head_of_a_class_only(model):
    found = [(w.rule, w.reason, w.place) for w in comment_waivers(model)]
    assert found == [
        ("ATT601", "float32 only: see [notes]", "model.py:2"),
        ("ATT301", "both", "model.py:7"),
        ("ATT601", "both", "model.py:7"),
        ("ATT301", "", "model.py:11"),
    ]


def test_a_waived_finding_is_kept_apart_with_its_reason_and_the_report_is_ok(model):
    checked = report(where=f"{model}:2")
    checked.where = f"{model}:2"
    apply(checked, waivers_for(checked, {}, model.parent), CODES)
    assert checked.ok
    assert [(f.rule, f.waived) for f in checked.waived] == [("ATT601", "float32 only: see [notes]")]
    assert checked.outcomes[0].result == "waived"
    assert checked.counts["failed"] == 0


def test_a_comment_on_another_class_of_the_file_covers_what_stands_in_that_class_and_nothing_else(model):
    for line, covered in ((9, True), (4, False)):
        checked = report(rule="ATT301", where=f"{model}:{line}")
        checked.where = f"{model}:99"  # a factory further down
        apply(checked, waivers_for(checked, {}, model.parent), CODES)
        assert checked.ok is covered


def test_a_comment_on_another_class_is_not_judged_as_unused(model):
    checked = report("passed", "ATT301", where=None)
    checked.where = f"{model}:99"
    apply(checked, waivers_for(checked, {}, model.parent), CODES)
    assert checked.findings == []


def test_a_waiver_without_a_reason_does_not_count_and_fails():
    checked = report()
    apply(checked, [Waiver("ATT601", "", "model.py:2", "/a/model.py")], CODES)
    assert [(f.rule, f.where) for f in checked.findings] == [("ATT601", None), ("ATT001", "/a/model.py:2")]
    assert checked.findings[1].message == "The waiver of ATT601 at model.py:2 gives no reason, so it does not count."


def test_a_waiver_of_a_rule_that_passes_fails():
    checked = report("passed")
    apply(checked, [Waiver("ATT601", "old", "pyproject.toml")], CODES)
    assert checked.findings[0].message == "The waiver of ATT601 at pyproject.toml excuses nothing: ATT601 passes."
    assert not checked.ok


def test_a_waiver_of_no_rule_fails():
    checked = report("passed")
    apply(checked, [Waiver("ATT999", "old", "model.py:2")], CODES)
    message = "The waiver of ATT999 at model.py:2 excuses nothing: ATT999 is the code of no rule."
    assert [f.message for f in checked.findings] == [message]


@pytest.mark.parametrize("result", ["not-exercised", None])
def test_a_waiver_of_a_rule_that_did_not_run_is_left_alone(result):
    checked = report("passed")
    checked.outcomes = [Outcome("ATT601", "name", result)] if result else []
    apply(checked, [Waiver("ATT601", "old", "pyproject.toml")], CODES)
    assert checked.ok


def test_a_rule_with_a_second_finding_is_not_waived_as_a_whole():
    checked = report()
    checked.findings.append(Finding("ATT601", "name", "warning", "and this"))
    assert set_aside(checked, lambda f: f.level == "warning", "why") == 1
    assert checked.outcomes[0].result == "failed"


def test_the_table_of_pyproject_names_targets_from_its_own_folder(model, monkeypatch):
    (model.parent / "sub").mkdir()
    monkeypatch.chdir(model.parent / "sub")
    checked = Report("../model.py:First")
    table = {
        "model.py:First": {"ATT601": " old "},
        "model.py:Other": {"ATT301": "no"},
        "pkg.model:First": {"ATT301": "no"},
    }
    assert table_waivers(table, model.parent, checked) == [Waiver("ATT601", "old", "pyproject.toml")]
    assert table_waivers(table, model.parent, Report("pkg.model:First"))[0].rule == "ATT301"


def test_a_table_of_another_kind_is_refused():
    with pytest.raises(
        DesignError, match=r"\[tool.regard.check.waivers\] of 'a.py:A' must be a table such as \{ ATT601 ="
    ):
        table_waivers({"a.py:A": ["ATT601"]}, None, Report("a.py:A"))


def test_an_argument_needs_an_equals_sign():
    assert argument_waiver("ATT601=a = b") == Waiver("ATT601", "a = b", "--waive")
    with pytest.raises(DesignError, match="--waive 'ATT601' says no reason; write --waive ATT601='why'"):
        argument_waiver("ATT601")


def test_a_baseline_sets_aside_as_many_findings_as_it_knows(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps([report().to_dict()]))
    checked = report()
    checked.findings.append(Finding("ATT601", "name", "error", "a second one"))
    baseline.apply(checked, baseline.read(known), "known.json")
    assert [f.message for f in checked.findings] == ["a second one"]
    assert [f.waived for f in checked.waived] == ["known in known.json"]


def test_a_baseline_says_what_is_gone(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps([report().to_dict()]))
    checked = report("passed")
    baseline.apply(checked, baseline.read(known), "known.json")
    assert checked.notes == ["1 finding(s) of known.json are gone; write it anew so that they cannot come back"]


@pytest.mark.parametrize("text", ["nothing", "[1]", '[{"target": "a"}]', "3"])
def test_what_is_no_report_is_no_baseline(tmp_path, text):
    (tmp_path / "known.json").write_text(text)
    with pytest.raises(DesignError, match=r"known\.json is not a report of regard \(\w+Error\); write one with"):
        baseline.read(tmp_path / "known.json")
