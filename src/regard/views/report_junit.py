"""The reports as JUnit XML: a suite per target, a case per rule, and one case that says whether the target was checked."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from collections.abc import Sequence

from regard.checks.report import Finding, Outcome, Report
from regard.views.report_text import number

FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")  # in XML 1.0


def render(reports: Sequence[Report]) -> str:
    """Errors are failures; what was not exercised or was waived is skipped; warnings and questions are the case's output."""
    root = xml.Element("testsuites", name="regard")
    for report in reports:
        root.append(_suite(report))
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _suite(report: Report) -> xml.Element:
    suite = xml.Element("testsuite", name=_clean(report.target), time=f"{report.seconds:.3f}")
    case = xml.SubElement(suite, "testcase", classname=_clean(report.target), name="checked")
    if report.status != "checked":
        xml.SubElement(case, "error", message=_clean(report.reason), type=report.status)
    outcomes = list(report.outcomes)
    known = {o.rule for o in outcomes}
    outcomes += [Outcome(f.rule, f.name, "failed") for f in report.findings if f.rule not in known]
    for outcome in outcomes:
        _case(suite, report, outcome)
    suite.set("tests", str(len(suite)))
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(plural, str(len(suite.findall(f"testcase/{kind}"))))
    return suite


def _case(suite: xml.Element, report: Report, outcome: Outcome) -> None:
    name = f"{outcome.rule} {outcome.name}"
    case = xml.SubElement(suite, "testcase", classname=_clean(report.target), name=name, time=f"{outcome.seconds:.3f}")
    if outcome.result == "not-exercised":
        xml.SubElement(case, "skipped", message=_clean(outcome.reason or "not exercised"))
    if outcome.result == "waived":
        reasons = {f.waived or "" for f in report.waived if f.rule == outcome.rule}
        xml.SubElement(case, "skipped", message=_clean("waived: " + "; ".join(sorted(reasons))))
    for finding in (f for f in report.findings if f.rule == outcome.rule):
        if finding.level == "error":
            xml.SubElement(case, "failure", message=_clean(finding.message), type=finding.level).text = _clean(
                _details(finding)
            )
        else:
            xml.SubElement(case, "system-out").text = _clean(f"{finding.level}: {finding.message}\n{_details(finding)}")


def _details(finding: Finding) -> str:
    measured = (
        f"measured {number(finding.measured)}, allowed {number(finding.allowed)}"
        if finding.measured is not None
        else None
    )
    parts = (finding.where, finding.example, measured, finding.cause, finding.fix, finding.diff, finding.script)
    return "\n".join([*(part for part in parts if part), f"regard rule {finding.rule}"])


def _clean(text: str) -> str:
    return FORBIDDEN.sub("?", text)
