"""Configured targets become test items; expected failures must fail; without configuration the plugin costs nothing."""

import subprocess
import sys

import pytest

from regard.checks.pages import pages
from regard.checks.report import CheckFailed, Finding, Outcome, Report
from regard.core.errors import TargetError
from regard.pytest_plugin import judge, parametrize

pytest_plugins = "pytester"

RULES = [p.code for p in pages() if p.code != "ATT003"]  # that one wants --nproc
RULE = next(code for code in RULES if not code.startswith("ATT0"))
NAME = next(p.name for p in pages() if p.code == RULE)
FAKE = f"""
import importlib.util, regard.checks.run as run
from dataclasses import replace
from regard.checks.report import Finding, Outcome, Report

def fake_run(targets, options):
    for i, target in enumerate(targets):
        report = Report(target, outcomes=[Outcome("{RULE}", "{NAME}", "failed")])
        report.findings = [Finding("{RULE}", "{NAME}", "error", "it leaks into the past")]
        if "Unbuildable" in target:
            report = Report(target, "not-exercised", "needs a licence")
        yield i, report

run.run = fake_run
"""
ATTENTION = "class Attention:\n    def forward(self, x): return x\n"


@pytest.fixture
def project(pytester):
    pytester.makeconftest(FAKE)
    pytester.makepyfile(model=ATTENTION)
    pytester.makepyfile(test_own="def test_own(): pass")
    pytester.makepyprojecttoml('[tool.regard.check]\ntargets = ["model.py:Attention"]\n')
    return pytester


def test_each_target_and_rule_is_an_item(project):
    result = project.runpytest_inprocess("-p", "no:xdist", "-rs")
    result.assert_outcomes(passed=2 + 2, failed=1, skipped=len(RULES) - 3)  # own, exercised, ATT001, ATT002
    result.stdout.fnmatch_lines(
        [f"*model.py:Attention::{RULE} {NAME}*", "*it leaks into the past*", f"*regard rule {RULE}*"]
    )


def test_items_are_chosen_by_name_like_others(project):
    result = project.runpytest_inprocess("-p", "no:xdist", "-k", NAME)
    result.assert_outcomes(failed=1, deselected=len(RULES) + 1)


def test_paths_on_the_command_line_leave_the_targets_out_until_asked_for(project):
    project.runpytest_inprocess("-p", "no:xdist", "test_own.py").assert_outcomes(passed=1)
    asked = project.runpytest_inprocess("-p", "no:xdist", "test_own.py", "--regard", "-k", NAME)
    asked.assert_outcomes(failed=1, deselected=len(RULES) + 1)


def test_a_waiver_in_pyproject_skips_with_its_reason(project):
    project.makepyprojecttoml(
        '[tool.regard.check]\ntargets = ["model.py:Attention"]\n'
        f'[tool.regard.check.waivers]\n"model.py:Attention" = {{ {RULE} = "kept for old checkpoints" }}\n'
    )
    result = project.runpytest_inprocess("-p", "no:xdist", "-k", NAME, "-rs")
    result.assert_outcomes(skipped=1, deselected=len(RULES) + 1)
    result.stdout.fnmatch_lines(["*waived: kept for old checkpoints*"])


def test_a_target_that_was_not_exercised_fails_once_and_is_never_green(project):
    project.makepyfile(model="class Unbuildable:\n    def forward(self, x): return x\n")
    project.makepyprojecttoml('[tool.regard.check]\ntargets = ["model.py:Unbuildable"]\n')
    result = project.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(passed=1, failed=1, skipped=len(RULES))
    result.stdout.fnmatch_lines(["*model.py:Unbuildable was not exercised: needs a licence*"])


def test_workers_run_the_same_items(project):
    result = project.runpytest_inprocess("-n", "1", "-k", NAME)
    result.assert_outcomes(failed=1)


def test_an_unconfigured_run_loads_neither_torch_nor_the_checker(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    (tmp_path / "test_modules.py").write_text(
        "import sys\n"
        "def test_modules():\n"
        "    assert 'regard.pytest_plugin' in sys.modules\n"
        "    assert not [m for m in sys.modules if m.partition('.')[0] in ('torch', 'numpy', 'rich', 'typer')]\n"
        "    assert 'regard.checks' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def report(result, *findings, status="checked"):
    outcomes = [Outcome("ATT601", "half", result, "no mask")] if result else []
    return Report("m.py:A", status=status, reason="no call runs", outcomes=outcomes, findings=list(findings))


def test_an_error_fails_with_the_whole_finding():
    finding = Finding("ATT601", "half", "error", "it overflows", measured=7.5, allowed=0.1, cause="-1e20 in float16")
    with pytest.raises(
        CheckFailed, match=r"m.py:A\nERROR  ATT601 half\n[^*]*measured    7.5, allowed 0.1\n[^*]*-1e20 in float16"
    ):
        judge(report("failed", finding), "ATT601")


def test_a_question_passes_and_is_shown():
    assert (
        "is this meant?"
        in judge(report("question", Finding("ATT601", "half", "question", "is this meant?")), "ATT601")[0]
    )


@pytest.mark.parametrize(
    ("result", "reason"), [("not-exercised", "not exercised: no mask"), (None, "the rule was not run")]
)
def test_what_was_not_exercised_is_skipped(result, reason):
    with pytest.raises(pytest.skip.Exception, match=reason):
        judge(report(result), "ATT601")


def test_a_target_that_was_not_exercised_fails_its_own_item_and_skips_the_rest():
    with pytest.raises(CheckFailed, match=r"m\.py:A was not exercised: no call runs"):
        judge(report(None, status="not-exercised"), "exercised")
    with pytest.raises(pytest.skip.Exception, match=r"m\.py:A was not exercised"):
        judge(report(None, status="not-exercised"), "ATT601")


@pytest.fixture
def fake_check(monkeypatch):
    calls = []

    def check(target, **options):
        calls.append((target, options))
        return Report(
            "A", outcomes=[Outcome(RULE, NAME, "failed")], findings=[Finding(RULE, NAME, "error", "it leaks")]
        )

    import regard.checks.check

    monkeypatch.setattr(regard.checks.check, "check", check)
    return calls


def test_parametrize_checks_a_target_once_for_all_rules_and_expects_what_it_is_told(fake_check):
    cases = parametrize(["m.py:A"], expected_failures={RULE: "known"}, seed=3).args[1]
    by_name = {case.id: case for case in cases}
    assert next(iter(by_name)) == "m.py:A-exercised"
    assert len(cases) == len(RULES) - 2 + 1
    (mark,) = by_name[f"m.py:A-{RULE}"].marks
    assert (mark.name, mark.kwargs) == ("xfail", {"reason": "known", "strict": True})
    for case in cases:
        if case.id.endswith(RULE):
            with pytest.raises(CheckFailed, match="it leaks"):
                case.values[0]()
        elif not case.id.endswith("exercised"):
            with pytest.raises(pytest.skip.Exception):
                case.values[0]()
        else:
            case.values[0]()
    assert fake_check == [("m.py:A", {"seed": 3})]


def test_parametrize_refuses_a_rule_that_does_not_exist():
    with pytest.raises(TargetError, match="there is no rule 'ATT999'"):
        parametrize(["m.py:A"], expected_failures={"ATT999": "typo"})


def test_the_decorator_is_reached_as_regard_pytest_parametrize():
    import regard

    assert regard.pytest.parametrize is parametrize
