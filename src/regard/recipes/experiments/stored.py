"""Runs of claims on disk: one JSON for each claim, written after each seed, so that the list goes on where it stopped.

A file holds the protocol under which it was measured; where that has changed since, its numbers are left out and measured again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.recipes.checkpoint import write_json
from regard.recipes.experiments.claim import NOT_RUN, Claim, Found
from regard.recipes.results import versions


def run_claim(claim: Claim, folder: Path, say: Callable[[str], None], *, again: bool = False) -> Found:
    """Run the seeds that are missing, and write each as it is done.

    Args:
        folder: Of the JSON files.
        say: Called with a line of progress.
        again: Run all of them, and replace what is stored.

    Raises:
        DataError: A package is missing, or a file that is not ours.
    """
    absent = [name for name in claim.needs if importlib.util.find_spec(name) is None]
    if absent:
        raise DataError(f"{claim.name} needs {', '.join(absent)}; install it and run again")
    runs = [] if again else stored_runs(claim, folder)
    done = {run["seed"] for run in runs}
    for seed in range(claim.seeds):
        if seed in done:
            say(f"{claim.name}, seed {seed}: done before")
            continue
        load, begun, worked = _load(), time.perf_counter(), time.process_time()
        numbers = {name: float(value) for name, value in claim.run(seed).items()}
        run = {
            "seed": seed, "numbers": numbers, "seconds": round(time.perf_counter() - begun, 2),
            "cpu_seconds": round(time.process_time() - worked, 2), "load": load, "date": date.today().isoformat(),
        }  # fmt: skip
        runs = sorted([*runs, run], key=lambda each: each["seed"])
        write_json(folder / f"{claim.name}.json", {
            "claim": claim.name, "says": claim.says[0], "protocol": claim.protocol[0],
            "command": f"regard experiment run {claim.name}{' --long' if claim.long else ''}",
            "machine": machine(), "versions": versions(), "runs": runs,
        })  # fmt: skip
        say(f"{claim.name}, seed {seed}: {run['cpu_seconds']:.1f} s of CPU, {run['seconds']:.1f} s")
    return Found({run["seed"]: run["numbers"] for run in runs})


def stored(claim: Claim, folder: Path) -> dict[str, Any] | None:
    """What is stored of a claim; None: nothing, or only under another protocol.

    Raises:
        DataError: The file is not one of ours.
    """
    path = folder / f"{claim.name}.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        runs = {"seed", "numbers", "date"} <= set.intersection(*(set(run) for run in found["runs"]))
        ours = found["claim"] == claim.name and "protocol" in found and runs
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} was not written by regard experiment run; remove it, or name another folder"
        ) from error
    if not ours:
        raise DataError(f"{path} was not written by regard experiment run {claim.name}; remove it")
    return found if found["protocol"] == claim.protocol[0] else None


def stored_runs(claim: Claim, folder: Path) -> list[dict[str, Any]]:
    """The runs of the seeds that the claim asks for."""
    found = stored(claim, folder)
    return [run for run in found["runs"] if run["seed"] < claim.seeds] if found else []


def verdict_of(claim: Claim, folder: Path) -> tuple[str, Found | None]:
    """The verdict with its numbers; "not run yet" unless every seed was run."""
    runs = stored_runs(claim, folder)
    found = Found({run["seed"]: run["numbers"] for run in runs}) if runs else None
    if found is None or len(runs) < claim.seeds:
        return NOT_RUN, found
    return claim.verdict(found), found


def machine() -> dict[str, Any]:
    """The processor and how many cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    return {"cpu": name, "cores": cores, "system": platform.system()}


def _load() -> float | None:
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
