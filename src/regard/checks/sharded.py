"""Sharded equals single: a module that is cut among processes, run in them, against itself in one. `regard check --nproc N`.

The author says how it is cut: `Design(sharded=f)`, or `# regard: design sharded="f"` in the class, with f a function of
the target's file. f(module, group) returns what every process calls with the whole input; that gives the whole output, or this
process's consecutive part of it along one axis.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.design import Design
from regard.checks.load import load
from regard.checks.pages import CUT
from regard.checks.prepare import NotCallable, prepare
from regard.checks.report import Finding, Outcome
from regard.checks.subject import as_dtype, clone, describe_error, invoke, untouched_globals
from regard.core.errors import RegardError, TargetError

CODE, NAME = CUT, "sharded_equals_single"
OUTPUT, GRADIENT = 1e-6, 1e-5  # of the largest value, float64: some modules keep tables in float32


def compare(
    target: str,
    processes: int,
    *,
    design: Mapping[str, Any] | None = None,
    init: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float = 60.0,
) -> tuple[Outcome, list[Finding]]:
    """Run the target in so many gloo processes and in one.

    Args:
        target: "file.py:Name"; every process loads it anew.
        design: What is declared beside the target, with `sharded` the name of a function in its file.
        timeout: Seconds, after which all processes are ended and a hang is reported.

    Raises:
        TargetError: Fewer than two processes.
    """
    if processes < 2:
        raise TargetError(f"--nproc is {processes}; a module is cut among 2 processes or more")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        job = {"target": target, "design": dict(design or {}), "init": dict(init or {}), "seed": seed, "folder": folder}
        hangs = _run(job, processes, timeout)
        told = [_read(Path(folder, f"{rank}.json")) for rank in range(processes)]
    outcome, findings = _judge(told, hangs, timeout)
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome, findings


def _run(job: dict[str, Any], processes: int, timeout: float) -> list[int]:
    """Start the processes and wait; those that had to be ended."""
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=work, args=(rank, processes, job), daemon=True) for rank in range(processes)]
    for process in running:
        process.start()
    end = time.monotonic() + timeout
    for process in running:
        process.join(max(0.0, end - time.monotonic()))
    late = [rank for rank, process in enumerate(running) if process.is_alive()]
    for process in running:
        process.kill()
        process.join()
    return late


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}


def _judge(told: list[dict[str, Any]], hangs: list[int], timeout: float) -> tuple[Outcome, list[Finding]]:
    n = len(told)
    skipped = next((said["skipped"] for said in told if "skipped" in said), None)
    if skipped is not None:
        return Outcome(CODE, NAME, "not-exercised", skipped), []
    errors = {rank: said["error"] for rank, said in enumerate(told) if "error" in said}
    if errors:
        rank, text = next(iter(errors.items()))
        return _failed(f"cut among {n} processes, process {rank} raises {text}", None, None)
    if hangs:
        return _failed(
            f"cut among {n} processes, {len(hangs)} of them did not end within {timeout:g} s (processes "
            f"{', '.join(map(str, hangs))}): do all of them make the same collective calls in the same order?",
            f"{timeout:g} s",
            None,
        )
    gone = [rank for rank, said in enumerate(told) if not said]
    if gone:
        return _failed(f"cut among {n} processes, process {gone[0]} ended without a result", None, None)
    output, gradient = (max(said[name] for said in told) for name in ("output", "gradient"))
    worst = next((said["parameter"] for said in told if said["gradient"] == gradient), "")
    if output > OUTPUT:
        return _failed(
            f"cut among {n} processes it gives another output: {output:.2g} of its size apart", output, OUTPUT
        )
    if gradient > GRADIENT:
        return _failed(
            f"cut among {n} processes the output is right and the gradient of {worst} is not: {gradient:.2g} of its size apart",
            gradient,
            GRADIENT,
        )
    return Outcome(CODE, NAME, "passed"), []


def _failed(message: str, measured: Any, allowed: Any) -> tuple[Outcome, list[Finding]]:
    finding = Finding(CODE, NAME, "error", message, measured=measured, allowed=allowed)
    return Outcome(CODE, NAME, "failed"), [finding]


def work(rank: int, processes: int, job: dict[str, Any]) -> None:
    """One process: what it finds goes to a file."""
    folder = Path(job["folder"])
    torch.set_num_threads(1)
    try:
        said = _measured(rank, processes, job)
    except (NotCallable, TargetError) as error:
        said = {"skipped": str(error)}
    except RegardError as error:
        said = {"error": str(error)}
    except Exception as error:
        said = {"error": describe_error(error)}
    (folder / f"{rank}.part").write_text(json.dumps(said))
    (folder / f"{rank}.part").rename(folder / f"{rank}.json")


def _measured(rank: int, processes: int, job: dict[str, Any]) -> dict[str, Any]:
    import torch.distributed as dist

    loaded = load(job["target"])
    with untouched_globals(job["seed"]):
        design = Design.from_mapping(job["design"]) if job["design"] else None
        case = prepare(loaded.obj, design=design, init=job["init"] or None, seed=job["seed"])
        cut = _cutter(case.design.sharded, loaded.obj, job["target"])
        if not isinstance(case.subject.pristine, nn.Module):
            return {"skipped": "it is a function; a module is cut"}
        batch = case.sample(tokens=4 * processes if case.call.free_length else None)
        given = case.call.lay_out(batch, torch.float64)
        single = as_dtype(case.subject.instance(fresh=True), torch.float64)
        whole = _output(case, single, given)
        whole.square().sum().backward()
        dist.init_process_group("gloo", init_method=f"file://{job['folder']}/meeting", rank=rank, world_size=processes)
        module = as_dtype(case.subject.instance(fresh=True), torch.float64)
        part = _output(case, cut(module, dist.group.WORLD), given)
        axis, rows = _place(part, whole, rank, processes)
        part.square().sum().backward()
        apart = _difference(part, whole if axis is None else whole.narrow(axis, *rows))
        gradient, name = _gradients(module, single, parts=axis is not None)
        dist.barrier()
        dist.destroy_process_group()
    return {"output": apart, "gradient": gradient, "parameter": name}


def _cutter(said: Any, obj: Any, target: str) -> Any:
    """The function that cuts the module.

    Raises:
        TargetError: None is declared, or the file has none of that name.
    """
    if said is None:
        raise TargetError(
            'nobody says how it is cut; declare `# regard: design sharded="f"` with f(module, group) in its file'
        )
    if callable(said):
        return said
    found = getattr(sys.modules.get(getattr(obj, "__module__", "")), str(said), None)
    if not callable(found):
        raise TargetError(f"sharded={said!r} names no function in the file of {target}")
    return found


def _output(case: Any, module: Any, given: dict[str, Any]) -> Tensor:
    """(B, M, F) float64 with a graph."""
    return case.call.main_output(invoke(module, {name: clone(value) for name, value in given.items()}))


def _place(part: Tensor, whole: Tensor, rank: int, processes: int) -> tuple[int | None, tuple[int, int]]:
    """Along which axis the part lies in the whole, with start and length; (None, ...) where it is the whole.

    Raises:
        TargetError: It is no part of it.
    """
    import torch.distributed as dist

    shapes: list[Any] = [None] * processes
    dist.all_gather_object(shapes, list(part.shape))
    if all(shape == list(whole.shape) for shape in shapes):
        return None, (0, 0)
    for axis in range(whole.ndim):
        lengths = [shape[axis] for shape in shapes]
        rest = [shape[:axis] + shape[axis + 1 :] for shape in shapes]
        if sum(lengths) == whole.shape[axis] and all(
            r == [*whole.shape[:axis], *whole.shape[axis + 1 :]] for r in rest
        ):
            return axis, (sum(lengths[:rank]), lengths[rank])
    raise RegardError(
        f"the processes give outputs of shapes {shapes}, which are neither {list(whole.shape)} nor parts of it"
    )


def _gradients(module: nn.Module, single: nn.Module, *, parts: bool) -> tuple[float, str]:
    """The largest difference of a gradient, relative to the largest gradient of all, and the parameter's name."""
    import torch.distributed as dist

    right = {name: p.grad for name, p in single.named_parameters() if p.grad is not None}
    size = max((float(g.abs().max()) for g in right.values()), default=1.0) or 1.0
    worst, where = 0.0, ""
    found = {_plain(name): p for name, p in module.named_parameters()}
    for name, expected in right.items():
        parameter = found.get(name)
        mine = None if parameter is None else parameter.grad
        if hasattr(mine, "full_tensor"):
            mine = mine.full_tensor()  # pyright: ignore
        elif parts:
            mine = torch.zeros_like(expected) if mine is None else mine.clone()
            dist.all_reduce(mine)
        if mine is None or mine.shape != expected.shape:
            continue
        apart = float((mine - expected).abs().max()) / size
        if apart > worst:
            worst, where = apart, name
    return worst, where


def _plain(name: str) -> str:
    """Without what DDP and FSDP put before it."""
    return name.removeprefix("module.").replace("_fsdp_wrapped_module.", "")


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max()) / max(float(other.abs().max()), 1e-12) if other.numel() else 0.0
