"""Whatever a target does to its process, it is reported for that target and the others go on.

The checker here is a fake that builds and calls the target: what is tested is the running, not the checking.
"""

import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

from regard.checks.plain import plain
from regard.checks.run import Options, RunError, run

FAKE = """
import torch
from regard.checks.report import Finding, Outcome, Report

def check(target, *, design=None, select=None, ignore=None, seed=0, init=None):
    obj = target(**(init or {}))
    try:
        obj.forward(torch.ones(2))
    except ValueError as error:
        return Report("fake", "not-exercised", f"no call runs: {error}")
    found = Finding("ATT101", "padding_content", "error", "it leaks", measured=float("nan"), allowed=torch.tensor(1.5))
    inferred = {"init": init, "select": select, "seed": seed, "threads": torch.get_num_threads()}
    return Report("fake", inferred=inferred, findings=[found], outcomes=[Outcome("ATT101", "padding_content", "failed")])
"""
MODEL = """
import ctypes, os, signal, subprocess, sys, time
import torch

class Fine:
    def __init__(self, heads=4, mode=None): self.heads = heads
    def forward(self, x): return x
class Endless(Fine):
    def forward(self, x):
        while True: pass
class HugeTensor(Fine):
    def forward(self, x): return torch.zeros(100 << 30, dtype=torch.uint8)
class HugeBytes(Fine):
    def forward(self, x): return bytearray(100 << 30)
class Segfault(Fine):
    def forward(self, x): ctypes.string_at(0)
class Exits(Fine):
    def forward(self, x): sys.exit(3)
class HardExits(Fine):
    def forward(self, x): os._exit(4)
class Deep(Fine):
    def forward(self, x): return self.forward(x)
class Prints(Fine):
    def forward(self, x):
        for _ in range(200): print("x" * 50_000)
class ChangesState(Fine):
    def forward(self, x):
        torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); torch.manual_seed(9); os.chdir("/")
class SeesState(Fine):
    def forward(self, x):
        assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled(), "state leaked"
class Interrupts(Fine):
    def forward(self, x): raise KeyboardInterrupt
class KillsParent(Fine):
    def forward(self, x): os.kill(os.getppid(), signal.SIGKILL); time.sleep(5)
class LeavesProcess(Fine):
    def forward(self, x): print("pid", subprocess.Popen(["sleep", "300"]).pid, flush=True)
class WantsCuda(Fine):
    def forward(self, x): return x.cuda()
"""
NEEDS_PACKAGE = """
from absent_ops import rearrange
class Tries:
    def forward(self, x):
        try: rearrange(x, "a -> a")
        except ImportError: pass
        raise ValueError("the last attempt failed in another way")
"""
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forking and memory limits are for Linux")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "fake_checker.py").write_text(textwrap.dedent(FAKE))
    (folder / "model.py").write_text(MODEL)
    (folder / "needs.py").write_text(NEEDS_PACKAGE)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(folder)
    yield folder
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


def reports(place, names, **options):
    options = {"timeout": 20.0, "parallel": 2, **options}
    targets = [f"{place / 'model.py'}:{name}" for name in names]
    found = dict(run(targets, Options(checker="fake_checker:check", **options)))
    assert sorted(found) == list(range(len(names)))
    return {name: found[i] for i, name in enumerate(names)}


@pytest.fixture(scope="module")
def survived(place):
    """One run over everything that can go wrong; "Fine" is first and last."""
    names = ["Fine", "Endless", "HugeTensor", "HugeBytes", "Segfault", "Exits", "HardExits", "Deep", "Prints"]
    names += ["ChangesState", "SeesState", "Interrupts", "LeavesProcess", "WantsCuda", "Missing"]
    return reports(place, names, timeout=3.0)


@linux
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Endless", r"stopped after 3 s \(--timeout\) at .*model\.py:10 in forward"),
        ("HugeTensor", r"it needs more than 4 GB \(--memory\): .*107374182400"),
        ("HugeBytes", r"it needs more than 4 GB \(--memory\) at .*model\.py:14 in forward"),
        ("Segfault", r"it crashed the interpreter \(SIGSEGV\) at .*model\.py:16 in forward"),
        ("Exits", r"it calls sys\.exit\(3\) at .*model\.py:18 in forward"),
        ("HardExits", r"it calls os\._exit\(4\) at .*model\.py:20 in forward"),
        ("Deep", r"it recurses without end at .*model\.py:22 in forward"),
        ("Interrupts", r"KeyboardInterrupt:  at .*model\.py:33 in forward"),
    ],
)
def test_a_target_that_ends_badly_is_reported_with_its_line(survived, name, reason):
    import re

    report = survived[name]
    assert report.status == "not-exercised"
    assert re.search(reason, report.reason), report.reason


@linux
def test_a_target_that_needs_cuda_is_said_to(survived):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert survived["WantsCuda"].reason.startswith("it needs CUDA, and none is available here (")


@linux
def test_a_package_that_is_missing_is_named_even_when_the_last_error_was_another(place):
    ((_, report),) = run([f"{place / 'needs.py'}:Tries"], Options(checker="fake_checker:check"))
    assert report.status == "not-exercised"
    assert report.reason == (
        "absent_ops.rearrange is needed, and the package 'absent_ops' is not installed; install it and check again "
        "(no call runs: the last attempt failed in another way)"
    )


@linux
def test_an_unknown_name_is_not_loaded(survived):
    assert survived["Missing"].status == "not-loaded"
    assert "there is no Missing; no attention was found (it defines Fine, " in survived["Missing"].reason


@linux
def test_the_others_go_on_and_see_nothing_of_each_other(survived, place):
    for name in ("Fine", "SeesState", "ChangesState", "Prints"):
        assert (survived[name].status, survived[name].reason) == ("checked", "")
    assert survived["Fine"].where == f"{place / 'model.py'}:5"
    assert survived["Fine"].target == f"{place / 'model.py'}:Fine"


@linux
def test_megabytes_that_are_printed_are_counted_and_cut(survived):
    (note,) = survived["Prints"].notes
    assert note.startswith("it printed 10,000,200 bytes, kept out of the results: xxx")
    assert len(note) < 400


@linux
def test_processes_that_a_target_leaves_behind_are_ended(survived):
    (note,) = survived["LeavesProcess"].notes
    pid = int(note.rpartition("pid ")[2])
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still alive")


@linux
def test_numbers_arrive_as_numbers_and_nan_as_text(survived):
    (finding,) = survived["Fine"].findings
    assert (finding.measured, finding.allowed) == ("nan", 1.5)


@linux
def test_a_target_that_kills_the_process_it_was_forked_from_stops_only_itself(place):
    found = reports(place, ["Fine", "KillsParent", "SeesState"], parallel=1)
    assert [found[n].status for n in found] == ["checked", "not-exercised", "checked"]
    assert found["KillsParent"].reason == "it ended the process that runs the targets"


@linux
def test_options_reach_the_checker_and_a_target_has_one_thread(place):
    found = reports(place, ["Fine"], init={"heads": "8", "mode": "'x'"}, select=("ATT1",), seed=7)["Fine"]
    assert found.inferred == {"init": {"heads": 8, "mode": "x"}, "select": ["ATT1"], "seed": 7, "threads": 1}


@linux
def test_closing_the_iterator_ends_the_processes(place):
    started = time.monotonic()
    running = run(
        [f"{place / 'model.py'}:{name}" for name in ("Fine", "Endless")],
        Options(checker="fake_checker:check", timeout=100.0, parallel=2),
    )
    next(running)
    running.close()
    assert time.monotonic() - started < 60


def test_without_fork_every_target_gets_an_interpreter_of_its_own(place):
    found = reports(place, ["Fine", "HardExits", "Endless"], fork=False, timeout=2.0)
    assert found["Fine"].status == "checked"
    assert "it calls os._exit(4) at " in found["HardExits"].reason
    assert "stopped after 2 s (--timeout) at " in found["Endless"].reason


def test_a_system_without_resource_says_that_there_is_no_memory_limit(monkeypatch):
    from regard.checks import child

    monkeypatch.setitem(sys.modules, "resource", None)
    assert child.limit(1 << 30, 5.0) == "no memory limit: this system has no `resource` module"


def test_a_checker_that_cannot_be_imported_is_an_error_and_not_a_report(capfd):
    with pytest.raises(RunError, match=r"the process that runs the targets did not start \(status 1\)"):
        list(run(["x.py:A"], Options(checker="no_such_checker:check", fork=True)))
    assert "no_such_checker" in capfd.readouterr().err


def test_plain_values_survive_json():
    import torch

    assert plain({1: (torch.tensor([1.0, float("inf")]), {3, 2}, True, torch.float32)}) == {
        "1": [[1.0, "inf"], [2, 3], True, "torch.float32"]
    }
