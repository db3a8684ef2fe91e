"""Reports: plain data, JSON in and out, and what raise_if_failed says."""

from __future__ import annotations

import json

import pytest
from attention_to_check import Leaky, NoCall, Plain

import regard
from regard.checks.report import CheckFailed, Finding, Outcome, Report


def test_a_real_report_survives_json():
    report = regard.check(Leaky())
    assert report.findings
    again = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report
    assert again.to_dict() == report.to_dict()


def test_a_report_of_a_later_version_is_read_without_what_is_new():
    data = Finding("ATT101", "padding_content", "error", "it leaks").to_dict() | {"mood": "grim"}
    assert Finding.from_dict(data) == Finding("ATT101", "padding_content", "error", "it leaks")


def test_a_short_report_is_read_with_defaults():
    report = Report.from_dict({"target": "a.py:B", "status": "checked"})
    assert report == Report("a.py:B")
    assert report.ok


def test_counts_are_by_result_and_ok_asks_for_errors_only():
    outcomes = [Outcome("ATT101", "a", r) for r in ("passed", "passed", "failed", "question", "not-exercised")]
    report = Report("a", findings=[Finding("ATT101", "a", "warning", "odd")], outcomes=outcomes)
    assert report.counts == {"checks": 5, "passed": 2, "failed": 1, "questions": 1, "not_exercised": 1}
    assert report.ok
    assert report.errors == []


def test_a_clean_report_is_handed_on():
    report = regard.check(Plain(), select=["ATT301"])
    assert report.raise_if_failed() is report


def test_a_failed_report_raises_with_every_error_by_name():
    findings = [
        Finding("ATT101", "padding_content", "error", "content hidden by mask changes real outputs by 0.6"),
        Finding("ATT407", "mask_constant", "question", "is -inf possible?"),
        Finding("ATT601", "fully_masked_row", "error", "the output is NaN"),
    ]
    with pytest.raises(CheckFailed) as caught:
        Report("net.py:Attention", findings=findings).raise_if_failed()
    assert str(caught.value) == (
        "net.py:Attention: 2 error(s)\n"
        "ATT101 padding_content: content hidden by mask changes real outputs by 0.6\n"
        "ATT601 fully_masked_row: the output is NaN"
    )


def test_a_target_that_was_not_exercised_raises_with_the_reason():
    with pytest.raises(CheckFailed, match=r"^NoCall was not exercised: no call runs: "):
        regard.check(NoCall()).raise_if_failed()


@pytest.mark.parametrize(
    ("status", "said"),
    [("not-loaded", "x was not loaded: no such file"), ("not-exercised", "x was not exercised: no such file")],
)
def test_the_status_is_said_in_words(status, said):
    with pytest.raises(CheckFailed) as caught:
        Report("x", status, "no such file").raise_if_failed()
    assert str(caught.value) == said


def test_a_failed_check_fails_a_test_as_an_assertion_does():
    assert issubclass(CheckFailed, AssertionError)


def test_a_finding_says_where_how_much_and_what_to_do():
    finding = regard.check(Leaky(), select=["ATT101"]).findings[0]
    assert finding.kind == "mask-added-as-01"
    assert finding.measured > finding.allowed
    assert finding.where.rpartition(":")[0].endswith("attention_to_check.py")
    assert finding.cause
    assert finding.fix
    assert finding.example
    assert finding.message.startswith("content hidden by mask (True = attend) changes real outputs by ")


def test_a_notebook_shows_the_report_with_its_findings_and_nothing_unescaped():
    report = Report("<b>", findings=[Finding("ATT101", "padding_content", "error", "1 < 2 & 3")])
    shown = report._repr_html_()
    assert "ATT101" in shown
    assert "1 &lt; 2 &amp; 3" in shown
    assert "<code>&lt;b&gt;</code>" in shown
