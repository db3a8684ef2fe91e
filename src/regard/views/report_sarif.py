"""The reports as SARIF 2.1.0, which code hosts and editors show at the user's line.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from regard import __version__
from regard.checks.pages import pages
from regard.checks.plain import plain
from regard.checks.report import Finding, Report
from regard.checks.waivers import place_of
from regard.views.report_text import relative

LEVEL = {"error": "error", "warning": "warning", "question": "note"}


def render(reports: Sequence[Report]) -> str:
    """One run: the rules that spoke, a result per finding (waived ones suppressed), a notification per unchecked target."""
    results = [_result(f, r) for r in reports for f in (*r.findings, *r.waived)]
    missed = [r for r in reports if r.status != "checked"]
    run = {
        "tool": {"driver": {"name": "regard", "version": __version__, "rules": _rules({r["ruleId"] for r in results})}},
        "invocations": [
            {
                "executionSuccessful": not missed,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": f"{r.target} was not checked ({r.status}): {r.reason}"}}
                    for r in missed
                ],
            }
        ],
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _rules(spoken: set[str]) -> list[dict[str, Any]]:
    return [
        {
            "id": p.code,
            "name": p.name,
            "shortDescription": {"text": p.title},
            "help": {"text": p.doc, "markdown": p.text()},
        }
        for p in pages()
        if p.code in spoken
    ]


def _result(finding: Finding, report: Report) -> dict[str, Any]:
    details = [finding.message, finding.example, finding.cause, finding.fix]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": LEVEL[finding.level],
        "message": {"text": "\n".join(part for part in details if part)},
        "partialFingerprints": {"regard/v1": f"{report.target}|{finding.rule}|{finding.kind or ''}"},
        "properties": plain(
            {"target": report.target, "kind": finding.kind, "measured": finding.measured, "allowed": finding.allowed}
        ),
    }
    file, line = place_of(finding.where or report.where)
    if file:
        place = {"artifactLocation": {"uri": relative(file)}, "region": {"startLine": line}}
        result["locations"] = [{"physicalLocation": place}]
    if finding.waived:
        result["suppressions"] = [{"kind": "external", "justification": finding.waived}]
    return result
