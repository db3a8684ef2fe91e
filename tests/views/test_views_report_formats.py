"""A report says the same in every format, and each format is what its readers expect."""

import json
import xml.etree.ElementTree as xml

import pytest

from regard.checks.report import Finding, Outcome, Report
from regard.checks.report_html import report_html
from regard.views import report_github, report_json, report_junit, report_sarif

HOSTILE = "50% of <b>rows</b> & [red]more\nsecond line\x00"


@pytest.fixture
def reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checked = Report(
        "model.py:A",
        outcomes=[
            Outcome("ATT301", "batch_independence", "failed", seconds=0.25),
            Outcome("ATT201", "future_leak", "question"),
            Outcome("ATT601", "half", "not-exercised", "no half on this machine"),
            Outcome("ATT602", "other", "waived"),
            Outcome("ATT603", "fine", "passed"),
        ],
        findings=[
            Finding(
                "ATT301", "batch_independence", "error", HOSTILE, "batch-first", f"{tmp_path}/model.py:7", 0.5, 1e-6
            ),
            Finding("ATT201", "future_leak", "question", "is it causal?", measured=float("inf")),
            Finding("ATT002", "waiver_unused", "error", "excuses nothing"),
        ],
        waived=[Finding("ATT602", "other", "error", "known", waived="old checkpoints")],
        where="/elsewhere/model.py:3",
        seconds=2.0,
    )
    return [checked, Report("b.py:B", "not-exercised", "needs <CUDA>")]


def test_json_is_strict_and_keeps_every_target(reports):
    read = json.loads(report_json.render(reports), parse_constant=pytest.fail)
    assert [r["target"] for r in read] == ["model.py:A", "b.py:B"]
    assert read[0]["findings"][1]["measured"] == "inf"
    assert read[0]["findings"][0]["message"] == HOSTILE
    assert read[0]["counts"] == {"checks": 5, "passed": 1, "failed": 1, "questions": 1, "not_exercised": 1}
    assert [Report.from_dict(r).to_dict() for r in read] == read


def test_sarif_places_results_at_the_line_with_rules_levels_and_suppressions(reports):
    log = json.loads(report_sarif.render(reports))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [
        ("ATT301", "error"),
        ("ATT201", "note"),
        ("ATT002", "error"),
        ("ATT602", "error"),
    ]
    first, second, *_, waived = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("model.py", 7)
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "/elsewhere/model.py"
    assert waived["suppressions"] == [{"kind": "external", "justification": "old checkpoints"}]
    assert {"ATT002", "ATT201", "ATT301"} <= {r["id"] for r in run["tool"]["driver"]["rules"]}
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "b.py:B was not checked" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_github_annotations_are_one_line_each_and_escaped(reports):
    lines = report_github.render(reports).splitlines()
    assert lines[0].startswith("::error file=model.py,line=7,title=ATT301 batch_independence::50%25 of <b>rows</b>")
    assert "more%0Asecond line" in lines[0]
    assert lines[1].startswith("::notice file=/elsewhere/model.py,line=3,title=ATT201 future_leak::is it causal?")
    assert lines[3] == "model.py:A: 5 checks: 1 passed, 1 failed, 1 question, 1 not exercised, 1 waived"
    assert lines[4] == "::warning title=b.py%3AB not checked::needs <CUDA>"
    assert lines[5] == "b.py:B: not checked"


def test_junit_has_a_case_per_rule_and_one_that_says_whether_the_target_was_checked(reports):
    root = xml.fromstring(report_junit.render(reports))
    first, second = root
    assert [(c.get("name"), [e.tag for e in c]) for c in first] == [
        ("checked", []),
        ("ATT301 batch_independence", ["failure"]),
        ("ATT201 future_leak", ["system-out"]),
        ("ATT601 half", ["skipped"]),
        ("ATT602 other", ["skipped"]),
        ("ATT603 fine", []),
        ("ATT002 waiver_unused", ["failure"]),
    ]
    assert first.find("testcase/failure").get("message").endswith("second line?")
    assert first[4][0].get("message") == "waived: old checkpoints"
    assert [first.get(k) for k in ("tests", "failures", "errors", "skipped")] == ["7", "2", "0", "2"]
    assert [(c.get("name"), c[0].tag, c[0].get("message")) for c in second] == [("checked", "error", "needs <CUDA>")]


def test_html_escapes_what_came_from_outside_and_says_the_verdict_in_words(reports):
    checked, missed = map(report_html, reports)
    assert "50% of &lt;b&gt;rows&lt;/b&gt; &amp; [red]more" in checked
    assert "<b>2 errors</b>" in checked
    assert "ATT601 half: no half on this machine" in checked
    assert "<script" not in checked
    assert "<b>NOT CHECKED</b>" in missed
    assert reports[0]._repr_html_() == checked
