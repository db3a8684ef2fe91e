"""Runs targets in child processes, so that no target can harm another: what it did instead of reporting becomes its report.

On Linux one warm process forks per target (zygote.py); elsewhere each target gets a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.checks.death import report_of
from regard.checks.report import Report
from regard.core.errors import RegardError

CHECKER = "regard.checks.check:check"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class RunError(RegardError, RuntimeError):
    """The checker itself could not be started."""


@dataclass(frozen=True)
class Options:
    """How targets are run: `timeout` in seconds and `memory` in bytes hold for one target; `init` values are Python literals."""

    design: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    seed: int = 0
    init: dict[str, str] = field(default_factory=dict)
    timeout: float = 60.0
    memory: int | None = 4 << 30
    parallel: int = 1
    checker: str = CHECKER
    fork: bool = sys.platform.startswith("linux")

    def job(self, target: str) -> dict[str, Any]:
        names = ("design", "select", "ignore", "seed", "init", "timeout", "memory", "checker")
        return {"target": target, **{name: getattr(self, name) for name in names}}


def run(targets: Sequence[str], options: Options) -> Iterator[tuple[int, Report]]:
    """Check every target in a process of its own; yields (position in `targets`, report) as each one ends.

    Closing the iterator, or an exception in its consumer, ends all processes.

    Raises:
        RunError: torch or the checker cannot be imported.
    """
    if not targets:
        return
    if options.fork:
        yield from _run_forked(targets, options)
    else:
        yield from _run_spawned(targets, options)


def _environment() -> dict[str, str]:
    """One thread per target and fixed hashing: the same seed gives the same report."""
    return {**os.environ, **ONE_THREAD, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}


def _run_forked(targets: Sequence[str], options: Options) -> Iterator[tuple[int, Report]]:
    left = list(range(len(targets)))
    while left:
        asked, done = list(left), set()
        for position, answer in _zygote([targets[i] for i in asked], options):
            done.add(asked[position])
            yield asked[position], report_of(targets[asked[position]], answer, options.job(""))
        left = [i for i in asked if i not in done]
        if left and options.parallel == 1:  # the first that did not answer killed the process that forks
            index = left.pop(0)
            yield index, Report(targets[index], "not-exercised", "it ended the process that runs the targets")
        options = replace(options, parallel=1)  # with several at once it is not known which one did


def _zygote(targets: Sequence[str], options: Options) -> Iterator[tuple[int, dict[str, Any]]]:
    """Answers of one zygote, as they come; ends early if the zygote dies."""
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.checks.zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
        start_new_session=True,  # Ctrl-C reaches the reader only, which then ends the zygote
    )
    assert process.stdin
    assert process.stdout
    order = {"jobs": [options.job(t) for t in targets], "parallel": options.parallel, "checker": options.checker}
    started = False
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("ready"):
                started = True
            else:
                yield answer["index"], answer
        process.wait()
    finally:
        _end(process)
    if not started:
        raise RunError(
            f"the process that runs the targets did not start (status {process.returncode}); see the lines above"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close its input, at which it ends its children and itself; kill it if it does not."""
    with contextlib.suppress(BrokenPipeError, OSError):
        process.stdin.close()  # type: ignore[union-attr]
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()  # type: ignore[union-attr]


def _run_spawned(targets: Sequence[str], options: Options) -> Iterator[tuple[int, Report]]:
    stop = threading.Event()
    with ThreadPoolExecutor(options.parallel) as pool:
        futures = {pool.submit(_spawn, options.job(t), stop): i for i, t in enumerate(targets)}
        try:
            for future in as_completed(futures):
                yield futures[future], report_of(targets[futures[future]], future.result(), options.job(""))
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _spawn(job: dict[str, Any], stop: threading.Event) -> dict[str, Any]:
    """One target in a fresh interpreter; the answer is what a zygote would have said. The clock starts after its imports."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        mailbox, trace = Path(folder, "mailbox"), Path(folder, "trace")
        process = subprocess.Popen(
            [sys.executable, "-m", "regard.checks.child", str(mailbox), str(trace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
        )
        printed = _Printed(process.stdout)
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.close()
        late = not _wait(process, mailbox, job["timeout"], stop)
        if late or stop.is_set():
            process.kill()
        process.wait()
        text = mailbox.read_text() if mailbox.exists() else ""
        return {
            "messages": [json.loads(line) for line in text.splitlines() if line.endswith("}")],
            "trace": trace.read_text(errors="replace") if trace.exists() else "",
            "printed": printed.kept.decode(errors="replace"),
            "printed_bytes": printed.count,
            "status": process.returncode,
            "late": late,
        }


def _wait(process: subprocess.Popen[bytes], mailbox: Path, timeout: float, stop: threading.Event) -> bool:
    """Wait for the end of a child; False when its time is up. Imports of ours get two minutes before the clock starts."""
    from time import monotonic

    deadline, begun = monotonic() + 120, False
    while process.poll() is None and not stop.is_set():
        if not begun and mailbox.exists() and mailbox.stat().st_size:
            deadline, begun = monotonic() + timeout + 0.5, True
        if monotonic() > deadline:
            return False
        stop.wait(0.05)
    return True


class _Printed:
    """Reads what a process prints, in a thread, and keeps the beginning."""

    def __init__(self, stream: Any) -> None:
        self.kept, self.count = bytearray(), 0
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream: Any) -> None:
        with stream:
            while chunk := stream.read1(1 << 16):
                self.count += len(chunk)
                self.kept += chunk[: max(0, 8192 - len(self.kept))]
