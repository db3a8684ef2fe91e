"""regard.check: build, call, apply every rule, and say what was found, what passed and what was not exercised."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.culprit import Culprit
from regard.checks.design import Design
from regard.checks.influence import is_causal
from regard.checks.leaks import culprit_of
from regard.checks.load import load
from regard.checks.prepare import NotCallable, inferred, prepare
from regard.checks.report import Finding, Outcome, Report
from regard.checks.rule import Rule, selected
from regard.checks.script import write_script
from regard.checks.shrink import shrink
from regard.checks.subject import describe_error, untouched_globals
from regard.core.errors import TargetError

RANK = {"error": 0, "warning": 1, "question": 2}


def check(
    target: Any,
    *,
    design: Design | Mapping[str, Any] | None = None,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    seed: int = 0,
    init: Mapping[str, Any] | None = None,
    on_outcome: Callable[[Outcome, list[Finding]], None] | None = None,
) -> Report:
    """Examine a module, class, factory, function or "file.py:Name", in this process, on copies.

    Args:
        target: what to examine; it is left as it was.
        design: what the author declares (a Design, or a mapping with its fields); None = inferred.
        select, ignore: prefixes of rule codes or names to run, or to leave out.
        seed: the same seed gives the same report.
        init: constructor arguments by name, where inference needs help.
        on_outcome: called after each rule with what it did and found (so that a crash in a later rule loses nothing).

    Returns:
        A Report; `report.ok` is False when anything of level error was found or the target was not exercised.

    Raises:
        TargetError: a target given as text does not exist.
        DesignError: a declaration or a rule prefix is not known.
    """
    start = time.perf_counter()
    rules = selected(select, ignore)
    if isinstance(design, Mapping):
        design = Design.from_mapping(design)
    name, where, notes, obj = _named(target)
    report = Report(name, notes=notes)
    try:
        with untouched_globals(seed):
            case = prepare(obj, design=design, init=init, seed=seed)
    except TargetError as error:
        report.status, report.reason = "not-exercised", str(error)
    except NotCallable as error:
        report.status, report.reason = "not-exercised", f"no call runs: {error}"
    else:
        with untouched_globals(seed):
            _examine(case, rules, report, where, on_outcome)
    report.seconds = round(time.perf_counter() - start, 3)
    return report


def _named(target: Any) -> tuple[str, str | None, list[str], Any]:
    if not isinstance(target, str):
        name = getattr(target, "__name__", type(target).__name__)
        return name, _place(target), [], target
    loaded = load(target)
    where = f"{loaded.file}:{loaded.line}" if loaded.file and loaded.line else None
    return target, where, list(loaded.notes), loaded.obj


def _place(obj: Any) -> str | None:
    import inspect

    cls = obj if inspect.isclass(obj) or inspect.isfunction(obj) else type(obj)
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return None


def _examine(
    case: Case, rules: list[Rule], report: Report, where: str | None, on_outcome: Callable[..., None] | None
) -> None:
    where = _place(case.subject.pristine) or where
    try:
        case.facts["causal"] = is_causal(case)
    except Exception as error:
        report.notes.append(f"causality not measured: {describe_error(error)}")
    case.facts["finite"] = bool(torch.isfinite(case.base[1]).all())
    for r in rules:
        known = len(report.findings)
        report.outcomes.append(_apply(case, r, report, where))
        if on_outcome is not None:
            on_outcome(report.outcomes[-1], report.findings[known:])
    report.findings = list({(f.rule, f.message): f for f in report.findings}.values())
    report.findings.sort(key=lambda f: (RANK[f.level], f.rule))
    report.notes += case.notes
    report.inferred = inferred(case)
    if not any(o.result != "not-exercised" for o in report.outcomes):
        report.status, report.reason = "not-exercised", "no rule applied to it"


def _finding(case: Case, r: Rule, verdict: Verdict, target: str, where: str | None) -> Finding:
    """The finding on the smallest input that still shows it, with a script where there is a short one."""
    culprit = _culprit(case, r, verdict) if verdict.level == "error" else None
    small, verdict = shrink(case, r, verdict) if verdict.level == "error" else (case, verdict)
    found = verdict.finding(r.code, r.name, _line(case, r) or where)
    if culprit is not None:
        found.message += f"; it comes in at {culprit.path} ({culprit.name})"
        found.module, found.where = culprit.path, culprit.where or found.where
    try:
        found.script = write_script(small, r.code, verdict, target)
    except Exception as error:
        case.notes.append(f"no script for {r.code}: {describe_error(error)}")
    source = small.call.sources[small.call.query]
    size = f"batch {source.batch}, length {source.tokens}"
    if (
        small is not case
        and found.example
        and not any(w in found.example for w in ("batch", "length", "tokens", "size"))
    ):
        found.example = f"{found.example} ({size})"
    return found


def _culprit(case: Case, r: Rule, verdict: Verdict) -> Culprit | None:
    """The module inside where it comes in, found by hooks; None where it is the target itself or could not be found."""
    try:
        return culprit_of(case, r.code, verdict)
    except Exception as error:
        case.notes.append(f"where inside {r.code} comes in was not found: {describe_error(error)}")
        return None


def _line(case: Case, r: Rule) -> str | None:
    """The line of the attention inside, for rules that speak of it, when there is one such line in the user's code."""
    if r.code[3] not in "1345":
        return None
    places = {s.where for s in case.facts.get(("sites", id(case.call))) or [] if s.where}
    return places.pop() if len(places) == 1 else None


def _apply(case: Case, r: Rule, report: Report, where: str | None) -> Outcome:
    start = time.perf_counter()
    try:
        if not case.facts.get("finite", True) and r.code[:4] not in ("ATT5", "ATT6"):
            raise NotExercised("a plain call gives NaN or inf (see finite_output)")
        got = r.function(case)
        verdicts = [v for v in (got if isinstance(got, list) else [got]) if isinstance(v, Verdict)]
    except NotExercised as reason:
        return Outcome(r.code, r.name, "not-exercised", str(reason), round(time.perf_counter() - start, 4))
    except Exception as error:  # the subject did not run under this rule's inputs: said, never green
        return Outcome(
            r.code,
            r.name,
            "not-exercised",
            f"it did not run: {describe_error(error)}",
            round(time.perf_counter() - start, 4),
        )
    report.findings += [_finding(case, r, v, report.target, where) for v in verdicts]
    levels = {v.level for v in verdicts}
    result = "failed" if levels & {"error", "warning"} else "question" if levels else "passed"
    return Outcome(r.code, r.name, result, seconds=round(time.perf_counter() - start, 4))
