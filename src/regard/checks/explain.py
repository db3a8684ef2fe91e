"""What was inferred about a target, without applying a rule: how it is built and called, and what could not be found out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from regard.checks.design import Design
from regard.checks.influence import is_causal
from regard.checks.prepare import NotCallable, inferred, prepare
from regard.checks.report import Report
from regard.checks.subject import describe_error, untouched_globals
from regard.core.errors import TargetError


def explain(
    target: Any,
    *,
    design: Design | None = None,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    seed: int = 0,
    init: Mapping[str, Any] | None = None,
) -> Report:
    """Build and call the target as `check` would, and report what was found out; no rule runs, so nothing is judged.

    Args:
        target: a module, class, factory or function (an object, not a text).
        select, ignore: not used; here so that the signature is that of `check`.

    Returns:
        A report without outcomes: status "checked" means that it was built and called.
    """
    start = time.perf_counter()
    report = Report(getattr(target, "__name__", type(target).__name__))
    try:
        with untouched_globals(seed):
            case = prepare(target, design=design, init=init, seed=seed)
            try:
                case.facts["causal"] = is_causal(case)
            except Exception as error:
                report.notes.append(f"causality not measured: {describe_error(error)}")
            report.inferred = inferred(case)
            report.notes += case.notes
    except TargetError as error:
        report.status, report.reason = "not-exercised", str(error)
    except NotCallable as error:
        report.status, report.reason = "not-exercised", f"no call runs: {error}"
    report.seconds = round(time.perf_counter() - start, 3)
    return report
