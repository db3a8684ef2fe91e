"""One run of `regard train` or `regard predict`: words in, a result or a table out."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import typer

from regard.core.errors import CaptureError, DataError, MissingExtraError
from regard.recipes.asked import Asked

RESULTS = Path("docs/recipes/results.json")


class Wanted(NamedTuple):
    """The words of one `regard train`."""

    task: str | None
    asked: Asked
    compare: bool
    seeds: int
    record: str | None
    results: bool


def wanted(given: dict[str, Any]) -> Wanted:
    """From the options of the command, by name.

    Raises:
        DataError: Numbers that cannot be meant, or --out that is a file.
    """
    if given["precision"] not in ("float32", "bfloat16", "float16"):
        raise DataError(f"--precision {given['precision']!r} is not one of float32, bfloat16, float16")
    for name in ("accumulate", "save", "seeds"):
        if given[name] < 1:
            raise DataError(f"--{name} {given[name]} must be at least 1")
    out = out_folder(given["out"], given["task"], given["data"])
    names = {f.name for f in fields(Asked)}
    values = {k: v for k, v in given.items() if k in names} | {"out": out, "settings": tuple(given["settings"])}
    return Wanted(given["task"], Asked(**values), given["compare"], given["seeds"], given["record"], given["results"])


def train_session(words: Wanted) -> int:
    """Train, or print what is asked about training; 130 if Ctrl-C ended it, else 0."""
    if words.results:
        from regard.recipes.results import table

        _, _, file = (words.record or "").partition("=")
        typer.echo(table(Path(file) if file else RESULTS), nl=False)
        return 0
    from regard.recipes.run import recipe, run, tasks

    if words.task is None:
        for name in tasks():
            typer.echo(f"{name:<10} {(recipe(name).__doc__ or '').splitlines()[0]}")
        return 0
    try:
        if words.compare:
            return _table(words.task, words.asked, words.seeds)
        return _single(words.task, words.asked, words.record, run)
    except KeyboardInterrupt:
        return 130


def predict_session(folder: Path, text: str) -> None:
    """Print what a trained model says about an input."""
    from regard.recipes.job import read_config
    from regard.recipes.run import recipe

    config = read_config(folder)
    for line in recipe(config["regard"]).restore(folder).predict(text):
        typer.echo(line)


def captured_recipe(folder: Path, text: str, level: str):
    """A capture of a trained recipe's model on an input, for `regard view`.

    Raises:
        CaptureError: The task has no tokens to show.
    """
    import torch

    from regard.recipes.job import read_config
    from regard.recipes.run import recipe
    from regard.recording.capture import capture
    from regard.recording.tokens import Tokens

    task = read_config(folder)["regard"]
    restored = recipe(task).restore(folder)
    if restored.inputs is None:
        raise CaptureError(f"a model of {task} has no tokens to show; regard predict {folder} FILE says what it sees")
    inputs, labels = restored.inputs(text)
    with torch.no_grad(), capture(restored.model, level=level, tokens=Tokens(labels=labels)) as cap:
        restored.model(*inputs)
    return cap


def _single(task: str, asked, record: str | None, run) -> int:
    result = run(task, asked)
    if result["interrupted"]:
        return 130
    if int(os.environ.get("RANK", 0)):
        return 0
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in result["test"].items())
    typer.echo(
        f"test: {numbers}  ({result['steps']} steps, {result['seconds']:.0f} s, of CPU {result['cpu_seconds']:.0f}; the model is in {asked.out})"
    )
    for name, value in result.get("baselines", {}).items():
        typer.echo(f"beside it: {name} {value:.4g}")
    if record:
        from regard.recipes.results import record as keep

        label, _, file = record.partition("=")
        keep(Path(file) if file else RESULTS, label, result, ["regard", *sys.argv[1:]])
    return 0


def _table(task: str, asked, seeds: int) -> int:
    from regard.recipes.compare import compare, markdown, picture

    table = compare(task, asked, seeds=seeds)
    text = markdown(table)
    (asked.out / "table.md").write_text(text, encoding="utf-8")
    typer.echo(text, nl=False)
    try:
        picture(table, asked.out / "table.png")
    except MissingExtraError as error:
        typer.echo(f"no picture: {error}", err=True)
    return 0


def out_folder(out: Path | None, task: str | None, data: str | None) -> Path:
    """The folder of a run: as given, else runs/TASK-DATA."""
    if out is not None:
        if out.is_file():
            raise DataError(f"--out {out} is a file; give a folder")
        return out
    name = "" if data is None else "-" + "".join(c if c.isalnum() else "_" for c in Path(data).name.split(".")[0])
    return Path("runs") / f"{task}{name}"
