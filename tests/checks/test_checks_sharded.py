"""A module cut among processes is compared with itself in one: right ones pass, wrong ones are told apart."""

import pathlib
import subprocess
import sys

import pytest
import torch.distributed as dist

from regard.checks.sharded import _judge, compare
from regard.core.errors import TargetError

TARGETS = pathlib.Path(__file__).with_name("sharded_targets.py")
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("Attention", None, marks=pytest.mark.slow),
        ("WithoutOthers", "cut among 2 processes it gives another output"),
        pytest.param("Detached", "the output is right and the gradient of qkv.", marks=pytest.mark.slow),
        pytest.param("Raising", "process 0 raises ValueError: only one machine here", marks=pytest.mark.slow),
    ],
)
def test_a_cut_module_is_what_it_is_in_one_process_or_the_report_says_how_not(name, text):
    outcome, findings = compare(f"{TARGETS}:{name}", 2, timeout=200)
    assert (outcome.name, outcome.result) == ("sharded_equals_single", "failed" if text else "passed")
    assert [text in finding.message for finding in findings] == ([True] if text else [])
    assert all(finding.level == "error" for finding in findings)


@pytest.mark.slow
def test_processes_that_hang_are_ended_and_reported():
    outcome, findings = compare(f"{TARGETS}:Stuck", 2, timeout=40)
    assert outcome.result == "failed"
    assert "did not end within 40 s" in findings[0].message


@pytest.mark.slow
def test_a_module_that_says_nothing_is_not_exercised_with_the_way_out():
    outcome, findings = compare(f"{TARGETS}:Undeclared", 2, timeout=200)
    assert (outcome.result, findings) == ("not-exercised", [])
    assert 'declare `# regard: design sharded="f"` with f(module, group) in its file' in outcome.reason


def test_one_process_is_refused():
    with pytest.raises(TargetError, match="--nproc is 1; a module is cut among 2 processes or more"):
        compare("a.py:B", 1)


@pytest.mark.parametrize(
    ("told", "hangs", "result", "text"),
    [
        ([{"output": 0.0, "gradient": 0.0, "parameter": ""}] * 2, [], "passed", None),
        (
            [{"output": 0.0, "gradient": 0.3, "parameter": "out.weight"}] * 2,
            [],
            "failed",
            "gradient of out.weight is not: 0.3",
        ),
        ([{}, {"output": 0.0, "gradient": 0.0, "parameter": ""}], [], "failed", "process 0 ended without a result"),
        ([{}, {}], [0, 1], "failed", "2 of them did not end within 9 s (processes 0, 1)"),
        ([{"error": "KeyError: x"}, {}], [1], "failed", "process 0 raises KeyError: x"),
        ([{"skipped": "no"}, {"skipped": "no"}], [], "not-exercised", None),
    ],
)
def test_what_the_processes_tell_is_judged(told, hangs, result, text):
    outcome, findings = _judge(told, hangs, 9.0)
    assert outcome.result == result
    assert [text in finding.message for finding in findings] == ([True] if text else [])


@pytest.mark.slow
def test_the_command_line_reports_a_module_that_is_cut_wrongly_and_exits_with_1():
    command = [sys.executable, "-m", "regard", "check", f"{TARGETS}:WithoutOthers", "--nproc", "2", "--timeout", "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 1
    assert "ERROR  ATT003 sharded_equals_single" in done.stdout
    assert "cut among 2 processes it gives another output" in done.stdout
    one = subprocess.run([*command[:-3], "1"], capture_output=True, text=True, timeout=200, check=False)
    assert one.returncode == 2
    assert "--nproc is 1; a module is cut among 2 processes or more" in one.stderr
