"""The command as a process: quick help, signals, terminals and pipes, and one seed, one report."""

import json
import signal
import subprocess
import sys
import time

import pytest


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project as the current folder, with a file of one candidate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "model.py").write_text("class OneAttention:\n    def forward(self, x):\n        return x\n")
    return tmp_path


def test_help_answers_in_half_a_second_without_torch():
    code = """
import sys, time
from regard.cli import app
try:
    app(["--help"])
except SystemExit:
    pass
heavy = [name for name in ("torch", "numpy", "matplotlib", "transformers") if name in sys.modules]
print(time.process_time(), *heavy)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *heavy = done.stdout.splitlines()[-1].split()
    assert "check" in done.stdout
    assert heavy == []
    assert float(seconds) < 0.5


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a signal ends the run")
def test_ctrl_c_ends_the_processes_and_prints_what_was_done(project):
    hangs = "class EndlessAttention:\n    def __init__(self):\n        while True: pass\n    def forward(self, x): return x\n"
    (project / "slow.py").write_text(hangs)
    command = [sys.executable, "-m", "regard", "check", "gone.py", "slow.py:EndlessAttention"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    hears = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - a job in the background is started deaf to it
    process = subprocess.Popen(command, **pipes, cwd=project, preexec_fn=hears)
    while "NOT CHECKED" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "interrupted: what had not ended is listed as not checked" in err
    assert "slow.py:EndlessAttention: interrupted (Ctrl-C)" in out
    assert "2 targets, 0 checked, 2 not" in out


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a terminal is opened")
def test_the_bar_is_on_a_terminals_stderr_only_and_results_still_reach_a_pipe(project):
    import os
    import pty

    main, side = pty.openpty()
    command = [sys.executable, "-m", "regard", "check", "gone.py", "model.py:OneAttention", "--format", "github"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=side, cwd=project, env={**os.environ, "TERM": "xterm"}
    )
    os.close(side)
    shown = b""
    while chunk := _read(main):
        shown += chunk
    out = process.communicate()[0].decode()
    os.close(main)
    assert b"checking" in shown
    assert b"0/1" in shown
    assert out.startswith("::warning title=gone.py not checked::gone.py does not exist\n")
    assert "checking" not in out


def _read(descriptor):
    import os

    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other side has closed
        return b""


def test_a_reader_that_has_had_enough_is_no_fault(project):
    command = f"{sys.executable} -m regard list model.py | head -c 1; {sys.executable} -m regard rule | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=project)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_same_seed_gives_the_same_report_from_the_real_checker():
    def report():
        command = [
            sys.executable,
            "-m",
            "regard",
            "check",
            "torch.nn:MultiheadAttention",
            "--format",
            "json",
            "--seed",
            "3",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        (found,) = json.loads(done.stdout)
        for outcome in (found, *found["outcomes"]):
            del outcome["seconds"]
        return found

    first = report()
    assert first["status"] == "checked"
    assert first == report()
