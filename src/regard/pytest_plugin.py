"""Checks as tests: one item per target and rule, from `[tool.regard.check] targets` or from `regard.pytest.parametrize`.

Loaded by pytest through its entry point in every run, so this file imports neither torch nor the checker until a target is
configured. Run `pytest -p no:regard` to leave it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from regard.checks.report import Report

EXERCISED = "exercised"  # the item that says whether a target was built and called at all


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("regard", "attention checks")
    group.addoption(
        "--regard", action="store_true", help="run the configured attention checks even when paths are given"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the items only if pyproject.toml of the root names targets."""
    file = config.rootpath / "pyproject.toml"
    if not file.is_file() or "tool.regard" not in file.read_text(encoding="utf-8"):
        return
    from regard.checks.settings import settings_of

    settings = settings_of(file)
    if settings.targets:
        config.pluginmanager.register(_Configured(settings), "regard-targets")


class _Configured:
    """Adds the configured items to a run of the whole suite."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @pytest.hookimpl(tryfirst=True)  # before -k and -m choose
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if _whole_suite(config):
            items += _Targets.from_parent(session, name="regard", nodeid="regard", settings=self.settings).collect()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist, which is started with all paths spelled out, what the user typed."""
        node.workerinput["regard_whole_suite"] = _whole_suite(node.config)


def _whole_suite(config: pytest.Config) -> bool:
    """Was pytest started without paths, or told to run the checks all the same?"""
    told = getattr(config, "workerinput", {}).get("regard_whole_suite")
    if told is not None:
        return told
    return config.getoption("regard", False) or config.args_source is not pytest.Config.ArgsSource.ARGS


class _Targets(pytest.Collector):
    """All configured targets, each with an item that says it was exercised and an item per rule."""

    def __init__(self, *, settings: Any, **rest: Any) -> None:
        super().__init__(**rest)
        self.settings = settings

    def collect(self) -> list[pytest.Item]:
        from regard.checks.pages import CUT, pages
        from regard.checks.targets import expand

        rules = [EXERCISED, *(f"{p.code} {p.name}" for p in pages() if p.code != CUT)]
        runs = [_Run(t.spec, self.settings) for t in expand(self.settings.targets)]
        return [
            _Item.from_parent(self, name=f"{run.target}::{rule}", run=run, rule=rule.split()[0])
            for run in runs
            for rule in rules
        ]


class _Run:
    """One target, checked in a child process when its first item runs; the other items read the same report."""

    def __init__(self, target: str, settings: Any) -> None:
        self.target, self.settings = target, settings
        self._report: Report | None = None

    def report(self) -> Report:
        if self._report is None:
            from regard.checks import pages, waivers
            from regard.checks.run import Options, run

            _, report = next(iter(run([self.target], Options())))
            found = waivers.waivers_for(report, self.settings.waivers, self.settings.folder)
            waivers.apply(report, found, [p.code for p in pages.pages()])
            self._report = report
        return self._report


class _Item(pytest.Item):
    """One rule on one target."""

    def __init__(self, *, run: _Run, rule: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.checked, self.rule = run, rule

    def runtest(self) -> None:
        for section in judge(self.checked.report(), self.rule):
            self.add_report_section("call", "regard", section)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from regard.checks.report import CheckFailed

        return str(excinfo.value) if isinstance(excinfo.value, CheckFailed) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.config.rootpath / "pyproject.toml", None, self.name


def judge(report: Report, rule: str) -> list[str]:
    """Pass, fail or skip the current test by what a report says of one rule; returns warnings and questions as texts.

    Raises:
        CheckFailed: the rule found an error; for "exercised", the target was not built and called.
        pytest.skip.Exception: the rule was not exercised, or is waived.
    """
    from regard.checks.report import CheckFailed

    if rule == EXERCISED:
        if report.status != "checked":
            raise CheckFailed(f"{report.target} was {report.status.replace('-', ' ')}: {report.reason}")
        return []
    if report.status != "checked":
        pytest.skip(f"{report.target} was {report.status.replace('-', ' ')}")
    found = [f for f in report.findings if f.rule == rule]
    if any(f.level == "error" for f in found):
        raise CheckFailed("\n".join(_texts(report, [f for f in found if f.level == "error"])))
    result = next((o for o in report.outcomes if o.rule == rule), None)
    if result is not None and result.result == "waived":
        pytest.skip("waived: " + "; ".join(sorted({f.waived or "" for f in report.waived if f.rule == rule})))
    if result is not None and result.result == "not-exercised":
        pytest.skip(f"not exercised: {result.reason}")
    if result is None and not rule.startswith("ATT0"):
        pytest.skip("not exercised: the rule was not run")
    return _texts(report, found)


def _texts(report: Report, findings: Sequence[Any]) -> list[str]:
    import io

    from rich.console import Console

    from regard.views.report_text import write_finding

    texts = []
    for finding in findings:
        console = Console(file=io.StringIO(), width=80, highlight=False, color_system=None)
        write_finding(finding, report, console)
        texts.append(f"{report.target}\n{console.file.getvalue().strip()}")  # type: ignore[attr-defined]
    return texts


class Check:
    """One rule on one target, to be called in a test body; the target is checked once for all its rules."""

    def __init__(self, target: Any, rule: str, reports: dict[int, Any], options: Mapping[str, Any]) -> None:
        self.target, self.rule, self._reports, self._options = target, rule, reports, options

    def __call__(self) -> None:
        """Raise CheckFailed if the rule found an error; skip the test if it was not exercised."""
        if id(self.target) not in self._reports:
            from regard.checks.check import check

            self._reports[id(self.target)] = check(self.target, **self._options)
        judge(self._reports[id(self.target)], self.rule)


def parametrize(
    targets: Sequence[Any], *, expected_failures: Mapping[str, str] | None = None, **options: Any
) -> pytest.MarkDecorator:
    """A decorator that gives a test one case per target and rule; the test takes `check` and calls it.

    Args:
        targets: modules, classes, factories, functions or texts such as "model.py:Attention"; checked in this process.
        expected_failures: rule code -> reason; such a case must fail, and fails the test when it passes.
        options: design, seed and init, as for `regard.check`.

    Raises:
        TargetError: expected_failures names a rule that does not exist.

    >>> @regard.pytest.parametrize([Attention(64, 8)], expected_failures={"ATT601": "float32 only"})  # doctest: +SKIP
    ... def test_attention(check):
    ...     check()
    """
    return pytest.mark.parametrize("check", list(_cases(targets, expected_failures or {}, options)))


def _cases(targets: Sequence[Any], expected: Mapping[str, str], options: Mapping[str, Any]) -> Iterator[Any]:
    from regard.checks.pages import page, pages

    expected = {page(code).code: reason for code, reason in expected.items()}
    rules = [EXERCISED, *(p.code for p in pages() if not p.code.startswith("ATT0"))]
    reports: dict[int, Any] = {}
    for number, target in enumerate(targets):
        label = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        for rule in rules:
            marks = [pytest.mark.xfail(reason=expected[rule], strict=True)] if rule in expected else []
            name = f"{label}-{rule}" if len(targets) == 1 else f"{label}{number}-{rule}"
            yield pytest.param(Check(target, rule, reports, options), id=name, marks=marks)
