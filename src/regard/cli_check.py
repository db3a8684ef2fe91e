"""One run of `regard check`: read the request, run the targets, set aside what is waived, write the report, choose the status."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from regard.checks import baseline, pages, waivers
from regard.checks.report import Report
from regard.checks.run import Options, run
from regard.checks.settings import read_settings, read_toml
from regard.checks.targets import Target, expand
from regard.core.errors import DesignError, TargetError
from regard.views import report_github, report_json, report_junit, report_sarif, report_text

RENDER = {
    "json": report_json.render,
    "sarif": report_sarif.render,
    "github": report_github.render,
    "junit": report_junit.render,
}
WARNING = "regard runs the code it checks, with your rights, in other processes with limits; it is no sandbox."
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass
class Request:
    """What was asked on the command line, as it was typed."""

    targets: list[str]
    init: list[str] = field(default_factory=list)
    design: Path | None = None
    select: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    waive: list[str] = field(default_factory=list)
    format: str = "text"
    out: Path | None = None
    seed: int = 0
    timeout: float = 60.0
    memory: str = "4GB"
    jobs: int = 0
    strict: bool = False
    baseline: Path | None = None
    durations: int = 0
    nproc: int = 0

    def options(self) -> Options:
        """The same, read. Raises TargetError or DesignError with one sentence for whatever cannot be."""
        if self.timeout <= 0:
            raise TargetError(f"--timeout is {self.timeout:g}; it must be more than 0 seconds")
        if self.jobs < 0:
            raise TargetError(f"--jobs is {self.jobs}; it must be 0 or more")
        if self.design is not None:
            read_toml(self.design)
        return Options(
            design=str(self.design) if self.design else None,
            select=pages.validated(self.select),
            ignore=pages.validated(self.ignore),
            seed=self.seed,
            init=dict(map(init_argument, self.init)),
            timeout=self.timeout,
            memory=memory_bytes(self.memory),
            parallel=self.jobs or min(4, os.cpu_count() or 1),
        )


def init_argument(text: str) -> tuple[str, str]:
    """ "heads=8" -> ("heads", "8"); a bare word is a string: "mode=fast" -> ("mode", "'fast'").

    Raises:
        TargetError: there is no "=", or what stands before it is no name.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name.isidentifier():
        raise TargetError(f"--init {text!r} is not NAME=VALUE; write for example --init heads=8")
    try:
        ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        if re.search(r"[()\[\]{},'\"]", value):
            raise TargetError(
                f"--init {text!r}: {value!r} is no Python literal; quote it for the shell, as in --init '{name}=(7, 7)'"
            ) from None
        return name, repr(value.strip())
    return name, value.strip()


def memory_bytes(text: str) -> int | None:
    """ "4GB" -> 4294967296; "0" -> None. Raises TargetError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", text.strip().upper())
    if not found:
        raise TargetError(f"--memory {text!r} is no size; write for example --memory 4GB")
    return int(float(found[1]) * UNITS[found[2]]) or None


def session(request: Request) -> int:
    """Run `regard check`; returns the exit status.

    Raises:
        RegardError: the command was asked wrongly; the text is one sentence.
    """
    if request.out is not None and not request.out.absolute().parent.is_dir():
        raise TargetError(f"--out {request.out} cannot be written: the folder {request.out.parent} does not exist")
    if request.format not in ("text", *RENDER):
        raise TargetError(f"--format {request.format!r} is not known; it is text, {', '.join(RENDER)}")
    settings = read_settings(Path.cwd())
    options = request.options()
    arguments = [waivers.argument_waiver(text) for text in request.waive]
    known = baseline.read(request.baseline) if request.baseline else None
    asked = request.targets or settings.targets
    if not asked:
        raise TargetError(
            "there is nothing to check: name a TARGET, or list some in [tool.regard.check] targets of pyproject.toml"
        )
    targets = expand(asked)
    stderr = Console(stderr=True, highlight=False)
    stderr.print(WARNING, style="dim", markup=False, soft_wrap=True)
    aside = _Aside(arguments, settings.waivers, settings.folder, known, request.baseline)
    coming = _in_order(targets, options, aside, stderr)
    reports = _write(request, _cut_too(coming, request) if request.nproc else coming, aside)
    return status(targets, reports, strict=request.strict)


def _cut_too(coming: Iterator[Report], request: Request) -> Iterator[Report]:
    """The reports, each with what the module does when it is cut among processes (--nproc)."""
    from regard.checks.settings import declaration
    from regard.checks.sharded import compare

    init = {name: ast.literal_eval(text) for name, text in map(init_argument, request.init)}
    for report in coming:
        if report.status == "checked":
            name = report.target.rpartition(":")[2]
            design = declaration(request.design, name) if request.design else None
            options: dict[str, Any] = {"design": design, "init": init, "seed": request.seed, "timeout": request.timeout}
            outcome, findings = compare(report.target, request.nproc, **options)
            report.outcomes.append(outcome)
            report.findings = [*findings, *report.findings]
        yield report


@dataclass
class _Aside:
    """What is set aside from every report: waivers and the baseline."""

    arguments: Sequence[waivers.Waiver]
    table: dict[str, Any]
    folder: Path
    known: baseline.Known | None
    name: Path | None
    codes: list[str] = field(default_factory=lambda: [p.code for p in pages.pages()])
    used: set[waivers.Waiver] = field(default_factory=set)

    def apply(self, report: Report) -> Report:
        found = [*self.arguments, *waivers.waivers_for(report, self.table, self.folder)]
        self.used |= waivers.apply(report, found, self.codes)
        if self.known is not None:
            baseline.apply(report, self.known, str(self.name))
        return report

    def finish(self, reports: Sequence[Report]) -> None:
        """An argument that excused nothing anywhere, though its rule ran, is an error of the last report in which it ran."""
        for waiver in self.arguments:
            ran = [r for r in reports if waivers.passed(r, waiver.rule)]
            if waiver not in self.used and waiver.reason and ran:
                ran[-1].findings.append(waivers.unused(waiver, f"{waiver.rule} passes"))


def _in_order(targets: list[Target], options: Options, aside: _Aside, stderr: Console) -> Iterator[Report]:
    """Reports in the order of the targets, each as soon as it and those before it are there.

    Ctrl-C ends the run: what had not ended is reported as interrupted.
    """
    waiting = {i: t.report for i, t in enumerate(targets) if t.report is not None}
    open_ones = [i for i, t in enumerate(targets) if t.report is None]
    columns = (
        TextColumn("checking"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    next_one = 0
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=len(open_ones))
        running = run([targets[i].spec for i in open_ones], options)
        try:
            while next_one < len(targets):
                while next_one in waiting:
                    bar.stop()  # the consumer writes now; the bar must not be in its way
                    yield aside.apply(waiting.pop(next_one))
                    bar.start()
                    next_one += 1
                for position, report in running:
                    waiting[open_ones[position]] = report
                    bar.update(task, advance=1, description=report.target)
                    break
        except KeyboardInterrupt:
            stderr.print("interrupted: what had not ended is listed as not checked", markup=False)
            for i in range(next_one, len(targets)):
                report = waiting.get(i) or Report(targets[i].spec, "not-exercised", "interrupted (Ctrl-C)")
                yield aside.apply(report)


def _progress(stderr: Console) -> Progress:
    """A bar on stderr if that is a terminal; it never touches stdout, which may be a file or a pipe."""
    columns = (
        TextColumn("checking"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    quiet = not stderr.is_terminal
    return Progress(
        *columns, console=stderr, transient=True, disable=quiet, redirect_stdout=False, redirect_stderr=False
    )


def _write(request: Request, coming: Iterator[Report], aside: _Aside) -> list[Report]:
    """Text is written target by target as it comes; the other formats once, at the end."""
    if request.format != "text":
        reports = list(coming)
        aside.finish(reports)
        text = RENDER[request.format](reports)
        if request.out:
            with _open(request.out) as file:
                file.write(text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
        return reports
    if request.out:
        with _open(request.out) as file:
            return _write_text(Console(file=file, highlight=False, width=80), request, coming, aside)
    return _write_text(Console(highlight=False), request, coming, aside)


def _open(out: Path):
    try:
        return out.open("w", encoding="utf-8")
    except OSError as error:
        raise TargetError(f"--out {out} cannot be written: {error.strerror}") from error


def _write_text(console: Console, request: Request, coming: Iterator[Report], aside: _Aside) -> list[Report]:
    reports = []
    for report in coming:
        report_text.write_report(report, console)
        reports.append(report)
    aside.finish(reports)
    report_text.write_summary(reports, console, request.durations)
    return reports


def status(targets: Sequence[Target], reports: Sequence[Report], *, strict: bool = False) -> int:
    """1 if any error; else 2 if a named target, or every target found in one argument, was not exercised; else 0.

    With `strict`, 2 if any target was not exercised.
    """
    if any(r.errors for r in reports):
        return 1
    done = dict.fromkeys({t.asked for t in targets}, False)
    for target, report in zip(targets, reports, strict=True):
        exercised = report.status == "checked"
        if not exercised and (strict or not target.found):
            return 2
        done[target.asked] |= exercised
    return 0 if all(done.values()) else 2


def explain_session(request: Request) -> int:
    """Run `regard explain`; returns 0 if the target was built and called, else 2."""
    from dataclasses import replace

    options = replace(request.options(), checker="regard.checks.explain:explain")
    targets = expand(request.targets)
    if len(targets) > 1:
        raise TargetError(
            f"{request.targets[0]} holds {len(targets)} candidates; explain one of {', '.join(t.spec for t in targets)}"
        )
    Console(stderr=True, highlight=False).print(WARNING, style="dim", markup=False, soft_wrap=True)
    report = targets[0].report or next(run([targets[0].spec], options))[1]
    report_text.write_inferred(report, Console(highlight=False))
    return 0 if report.status == "checked" else 2


__all__ = ["DesignError", "Request", "explain_session", "session", "status"]
