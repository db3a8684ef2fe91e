"""Marks and what was reached: results are kept with command, seed, versions and date, and printed with reached or fallen short."""

from __future__ import annotations

import json
import platform
import shlex
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError


class Mark(NamedTuple):
    """What a run of at most fifteen minutes on two cores should reach on a data set."""

    task: str
    data: str
    metric: str
    value: float
    higher: bool = True


MARKS = (
    Mark("text", "aclImdb", "accuracy", 88.5),
    Mark("text", "aclImdb, long", "accuracy", 91.0),
    Mark("text", "movies", "accuracy", 80.4),
    Mark("text", "movies, MiniLM", "accuracy", 84.0),
    Mark("text", "reviews", "accuracy", 88.0),
    Mark("qa", "wiki", "exact", 88.0),
    Mark("qa", "wiki", "f1", 91.0),
    Mark("qa", "qamr", "f1", 52.0),
    Mark("tag", "resume", "f1", 93.0),
    Mark("tag", "weibo", "f1", 42.0),
    Mark("tag", "people", "f1", 91.0),
    Mark("tag", "brown", "accuracy", 96.5),
    Mark("series", "ETTh1, linear", "mse", 0.376, higher=False),
    Mark("series", "ETTh1, attention", "mse", 0.374, higher=False),
    Mark("series", "weather", "mse", 0.46, higher=False),
    Mark("lm", "tinyshakespeare", "loss_tenth", 1.62, higher=False),
    Mark("translate", "multi30k", "bleu", 25.0),
    Mark("vision", "fashion", "accuracy", 92.5),
    Mark("vision", "cifar10", "accuracy", 74.0),
)


def record(file: Path, label: str, result: dict[str, Any], command: list[str]) -> None:
    """Add a result to a file, in the place of one of the same task, label and seed.

    Args:
        file: JSON; made if it is not there.
        label: The data set, as the marks name it.
        result: What `regard.recipes.run.run` returned.
        command: The words of the command line.
    """
    rows = read(file) if file.is_file() else []
    row = {
        "task": result["regard"], "data": label, "test": result["test"], "baselines": result.get("baselines", {}),
        "seed": result["seed"], "steps": result["steps"], "cpu_seconds": round(result["cpu_seconds"], 1),
        "parameters": result["parameters"], "command": shlex.join(without_places(command)), "date": date.today().isoformat(),
        "versions": versions(),
    }  # fmt: skip
    key = ("task", "data", "seed")
    rows = [old for old in rows if [old[k] for k in key] != [row[k] for k in key]] + [row]
    rows.sort(key=lambda each: [each[k] for k in key])
    from regard.recipes.checkpoint import write_json

    write_json(file, rows)


def without_places(command: list[str]) -> list[str]:
    """The words that decide what is computed: where the run and its record were written stands for nobody else."""
    kept, words = [], iter(command)
    for word in words:
        if word == "--out":
            next(words, None)
        elif not word.startswith("--out="):
            kept.append(word.partition("=")[0] if kept and kept[-1] == "--record" else word)
    return kept


def versions() -> dict[str, str]:
    """Of Python, of the machine's kind, and of the packages that decide the numbers."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("torch", "numpy", "tokenizers", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read(file: Path) -> list[dict[str, Any]]:
    """The rows of a file of results.

    Raises:
        DataError: No such file, or not one of ours.
    """
    if not file.is_file():
        raise DataError(f"there is no file {file}; regard train TASK --record {file} writes it")
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        assert all({"task", "data", "test", "seed"} <= set(row) for row in rows)
    except (json.JSONDecodeError, AssertionError, TypeError) as error:
        raise DataError(f"{file} was not written by regard train --record") from error
    return rows


def table(file: Path) -> str:
    """Every mark with what was reached, as Markdown: the mean over seeds, their number, and reached, fallen short or not run."""
    rows = read(file)
    lines = ["| task | data | metric | mark | measured | seeds | CPU seconds | |", "|---|---|---|---|---|---|---|---|"]
    for mark in MARKS:
        found = [
            row for row in rows if (row["task"], row["data"]) == (mark.task, mark.data) and mark.metric in row["test"]
        ]
        digits = 3 if abs(mark.value) < 10 else 1
        head = f"| {mark.task} | {mark.data} | {mark.metric} | {mark.value:.{digits}f} |"
        if not found:
            lines.append(f"{head} - | - | - | not run yet |")
            continue
        values = [row["test"][mark.metric] for row in found]
        mean = round(sum(values) / len(values), digits)
        good = mean >= mark.value if mark.higher else mean <= mark.value
        spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
        seconds = max(row["cpu_seconds"] for row in found)
        verdict = "reached" if good else "fallen short"
        lines.append(f"{head} {mean:.{digits}f}{spread} | {len(found)} | {seconds:.0f} | {verdict} |")
    return "\n".join(lines) + "\n"
