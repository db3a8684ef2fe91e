"""What happens inside the process of one target: limits are set, the target is loaded and checked, a report is sent.

Messages are JSON, one a line: {"stage": "load" | "check"}, then {"report": {...}}. Where the process dies instead, its last
Python stack is in the trace file (written by faulthandler on a crash, on os._exit and when the time is up).
"""

from __future__ import annotations

import ast
import faulthandler
import importlib
import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from regard.checks import stubs
from regard.checks.load import load, source_of
from regard.checks.plain import plain
from regard.checks.report import Report
from regard.checks.settings import declaration
from regard.core.errors import RegardError, TargetError

CUDA_WANTED = (
    "Torch not compiled with CUDA",
    "No CUDA GPUs",
    "Found no NVIDIA driver",
    "CUDA driver initialization failed",
)
NO_MEMORY = ("can't allocate memory", "Cannot allocate memory")


def run_job(job: dict[str, Any], mailbox: BinaryIO, trace: BinaryIO) -> None:
    """Check one target under limits and send the report; never raises.

    Args:
        job: target, checker, design, select, ignore, seed, init (name -> Python literal), timeout (s), memory (bytes or None).
        mailbox: where the messages go.
        trace: where the stack goes if this process dies.
    """
    watch_over(job["timeout"], trace)
    notes = [note for note in [limit(job["memory"], job["timeout"])] if note]
    warnings.simplefilter("ignore")
    started = time.perf_counter()

    def send(message: dict[str, Any]) -> None:
        mailbox.write(json.dumps(plain(message)).encode() + b"\n")
        mailbox.flush()

    report = examine(job, lambda stage: send({"stage": stage}))
    faulthandler.cancel_dump_traceback_later()
    report.seconds = report.seconds or time.perf_counter() - started
    report.notes += notes
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    send({"report": report.to_dict()})


def examine(job: dict[str, Any], tell: Any) -> Report:
    """Load and check one target; whatever goes wrong becomes a report that says so."""
    target, status = job["target"], "not-loaded"
    try:
        tell("load")
        loaded = load(target)
        status = "not-exercised"
        tell("check")
        report = checker(job["checker"])(loaded.obj, **arguments(job, loaded.name))
    except TargetError as error:
        return Report(target, status, str(error))
    except SystemExit as error:
        return Report(target, status, f"it calls sys.exit({error.code!r}){_at(error, target)}")
    except RecursionError as error:
        return Report(target, status, f"it recurses without end{_at(error, target)}")
    except MemoryError as error:
        return Report(target, status, f"it needs more than {size(job['memory'])} (--memory){_at(error, target)}")
    except RegardError as error:
        return Report(target, status, str(error))
    except BaseException as error:  # a KeyboardInterrupt or GeneratorExit raised by user code as well
        reason = f"{type(error).__name__}: {error}{_at(error, target)}"
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__)[-4:])
        return Report(target, status, _explain(reason, job), notes=[f"stopped by an exception:\n{stack}"])
    report.target = target
    file, line = source_of(loaded.obj)
    report.where = report.where or (f"{file}:{line}" if file else None)
    report.notes = [*loaded.notes, *report.notes]
    report.reason = _explain(report.reason, job)
    if (
        report.status != "checked" and stubs.needed
    ):  # inference tried on, and its last error says nothing of the package
        report.reason = f"{stubs.missing(stubs.needed[0])}; install it and check again ({report.reason})"
    return report


def checker(place: str) -> Any:
    """The function named by "module:function", with the signature of `regard.checks.check.check`."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def arguments(job: dict[str, Any], name: str) -> dict[str, Any]:
    """Keyword arguments for the checker: what was not given is left out."""
    given: dict[str, Any] = {name: tuple(job[name]) for name in ("select", "ignore") if job.get(name)}
    if job.get("init"):
        given["init"] = {name: ast.literal_eval(text) for name, text in job["init"].items()}
    if job.get("design"):
        from regard.checks.design import Design

        given["design"] = Design.from_mapping(declaration(Path(job["design"]), name))
    return {**given, "seed": job["seed"]}


def _at(error: BaseException, target: str) -> str:
    """Where in the user's code: the deepest frame of the target's file, else none."""
    place = target.rpartition(":")[0]
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if place.endswith(".py") and _same(f.filename, place)
    ]
    return f" at {place}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _explain(reason: str, job: dict[str, Any]) -> str:
    if any(sign in reason for sign in CUDA_WANTED):
        return f"it needs CUDA, and none is available here ({reason})"
    if any(sign in reason for sign in NO_MEMORY):
        return f"it needs more than {size(job['memory'])} (--memory): {reason}"
    return reason


def size(memory: int | None) -> str:
    """4294967296 -> "4 GB"."""
    return f"{memory / 2**30:.3g} GB" if memory else "the memory of this machine"


def watch_over(timeout: float, trace: BinaryIO) -> None:
    """Write the Python stack to `trace` on a crash, on os._exit, and when the time is up (the parent then kills)."""
    faulthandler.enable(trace, all_threads=False)
    faulthandler.dump_traceback_later(timeout, file=trace)
    leave, me = os._exit, os.getpid()

    def noted_exit(status: int) -> None:
        if os.getpid() == me:
            trace.write(f"os._exit({status})\n".encode())
            faulthandler.dump_traceback(trace, all_threads=False)
        leave(status)

    os._exit = noted_exit  # type: ignore[assignment]


def limit(memory: int | None, timeout: float) -> str | None:
    """Set the limits of this process; return the note for the report where memory cannot be limited.

    RLIMIT_DATA counts private writable memory, so address space that CUDA or torch only reserve is not held against the
    target. What the process holds before it starts is added: `memory` is what the target may take itself.
    """
    try:
        import resource
    except ImportError:
        return "no memory limit: this system has no `resource` module"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cpu_seconds = int(timeout * (os.cpu_count() or 1)) + 10  # ends a process whose parent has died
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    if not sys.platform.startswith("linux"):
        return "no memory limit: only Linux holds a process to one"
    if memory:
        held = Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]
        most = int(held) * 1024 + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    return None


def main() -> None:
    """`python -m regard.checks.child MAILBOX TRACE`: one job from stdin, for systems that cannot fork."""
    job = json.loads(sys.stdin.buffer.readline())
    prepare()
    with open(sys.argv[1], "ab", buffering=0) as mailbox, open(sys.argv[2], "ab", buffering=0) as trace:
        leave = os._exit
        run_job(job, mailbox, trace)
        leave(0)  # without waiting for threads that the target may have started


def prepare() -> None:
    """Import what every target needs, and use one thread: sums do not depend on the machine, and jobs do not compete."""
    import torch

    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
