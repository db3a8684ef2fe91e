"""A process that has torch imported and forks once per target, so that the import is paid for once.

stdin: one JSON line {"jobs": [...], "parallel": N, "checker": "module:function"}; its end means that the reader has gone.
stdout: one JSON line per target as it ends, {"index", "messages", "trace", "printed", "printed_bytes", "status", "late"}.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from regard.checks.child import checker, prepare, run_job

KEPT_BYTES = 8192  # of what a target prints
GRACE = 0.5  # seconds between the time limit, at which the child writes its stack, and the kill
TICK = 0.05


@dataclass
class _Child:
    """One forked process and what has been read from it: `mailbox`, `trace` and `printed` are read ends of pipes."""

    index: int
    pid: int
    deadline: float
    pipes: dict[str, int]
    read: dict[str, bytearray] = field(
        default_factory=lambda: {"mailbox": bytearray(), "trace": bytearray(), "printed": bytearray()}
    )
    printed_bytes: int = 0
    late: bool = False

    def take(self, name: str) -> int | None:
        """Read once; how many bytes came: 0 at the end of the pipe, None when nothing is there yet."""
        try:
            data = os.read(self.pipes[name], 1 << 16)
        except BlockingIOError:
            return None
        kept = data
        if name == "printed":
            self.printed_bytes += len(data)
            kept = data[: max(0, KEPT_BYTES - len(self.read[name]))]
        self.read[name] += kept
        return len(data)

    def close(self) -> None:
        """Read what is left and close; the process has ended, so what is left is at most what the pipes hold."""
        for name, fd in self.pipes.items():
            while self.take(name):
                pass
            os.close(fd)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints on import must not enter the answers
    order = json.loads(sys.stdin.buffer.readline())
    prepare()
    import torch._dynamo  # noqa: F401 - a dispatch mode imports it at the first call, a second of work: once, before the fork

    checker(order["checker"])
    answers.write(json.dumps({"ready": True}) + "\n")
    Supervisor(order["jobs"], order["parallel"], answers).run()


class Supervisor:
    """Keeps `parallel` children running until every job has been answered."""

    def __init__(self, jobs: list[dict[str, Any]], parallel: int, answers: Any) -> None:
        self.waiting = list(enumerate(jobs))
        self.parallel = parallel
        self.answers = answers
        self.running: dict[int, _Child] = {}
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        self.selector.register(0, selectors.EVENT_READ, None)
        while self.waiting or self.running:
            while self.waiting and len(self.running) < self.parallel:
                child = self.start(*self.waiting.pop(0))
                self.running[child.pid] = child
            for key, _ in self.selector.select(TICK):
                if key.data is None:
                    if not os.read(0, 1024):  # the reader has gone
                        self.stop()
                        return
                elif key.data[0].take(key.data[1]) == 0:
                    self.selector.unregister(key.fd)
            for child in list(self.running.values()):
                self.look_at(child)

    def start(self, index: int, job: dict[str, Any]) -> _Child:
        pipes = {name: os.pipe() for name in ("mailbox", "trace", "printed")}
        pid = os.fork()
        if pid == 0:
            os.close(self.answers.fileno())
            _become_child(job, pipes)
        for _, write in pipes.values():
            os.close(write)
        child = _Child(
            index, pid, time.monotonic() + job["timeout"] + GRACE, {n: read for n, (read, _) in pipes.items()}
        )
        for name, fd in child.pipes.items():
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ, (child, name))
        return child

    def look_at(self, child: _Child) -> None:
        """End a child that has reported, died or used up its time, and answer for it."""
        done = b'{"report"' in child.read["mailbox"] and child.read["mailbox"].endswith(b"\n")
        ended, status = os.waitpid(child.pid, os.WNOHANG)
        child.late = not done and not ended and time.monotonic() > child.deadline
        if not (done or ended or child.late):
            return
        _kill(child.pid, alive=not ended)
        if not ended:
            _, status = os.waitpid(child.pid, 0)
        for fd in child.pipes.values():
            if fd in self.selector.get_map():
                self.selector.unregister(fd)
        child.close()
        del self.running[child.pid]
        self.answer(child, status)

    def answer(self, child: _Child, status: int) -> None:
        lines = child.read["mailbox"].decode(errors="replace").splitlines()
        code = os.waitstatus_to_exitcode(status)
        message = {
            "index": child.index,
            "messages": [json.loads(line) for line in lines if line.endswith("}")],
            "trace": child.read["trace"].decode(errors="replace"),
            "printed": child.read["printed"].decode(errors="replace"),
            "printed_bytes": child.printed_bytes,
            "status": code,
            "late": child.late,
        }
        self.answers.write(json.dumps(message) + "\n")
        self.answers.flush()

    def stop(self) -> None:
        for child in self.running.values():
            _kill(child.pid, alive=True)


def _kill(pid: int, *, alive: bool) -> None:
    """End a child and whatever it started itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if alive:  # it may not have reached setsid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become_child(job: dict[str, Any], pipes: dict[str, tuple[int, int]]) -> None:
    """In the forked process: own session, own standard streams, run the job, end. Never returns."""
    leave = os._exit
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(pipes["printed"][1], 1)
        os.dup2(pipes["printed"][1], 2)
        with os.fdopen(pipes["mailbox"][1], "wb", 0) as mailbox, os.fdopen(pipes["trace"][1], "wb", 0) as trace:
            run_job(job, mailbox, trace)
    finally:
        leave(0)


if __name__ == "__main__":
    main()
