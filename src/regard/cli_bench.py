"""One run of `regard bench`: progress on stderr, rows on stdout, and what was asked for as JSON and as a picture."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import typer

from regard.core.errors import BenchError

OK, FAILED = 0, 1


@dataclass(frozen=True)
class Wanted:
    """What was asked for; `suites` may be ["all"], `against` is names with commas between."""

    suites: list[str]
    against: str = ""
    plot: Path | None = None
    json: Path | None = None
    threads: int = 1
    rounds: int | None = None
    quick: bool = False


def bench_session(wanted: Wanted) -> int:
    """Measure and print; return the exit status.

    Raises:
        BenchError: No such suite or peer, a number below 1, or a folder that is not there.
    """
    _check(wanted)
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from regard.bench.suites import SUITES, run
    from regard.views.bench_text import machine_text, suite_text

    start = time.monotonic()

    def say(now: str) -> None:
        typer.echo(f"[{time.monotonic() - start:4.0f} s] {now}", err=True)

    names = list(SUITES) if wanted.suites == ["all"] else wanted.suites
    peers = [name.strip() for name in wanted.against.split(",") if name.strip()]
    found: dict = {"suites": {}, "curves": {}}
    for name, rows in run(
        names, quick=wanted.quick, against=peers, threads=wanted.threads, rounds=wanted.rounds, say=say
    ):
        if name == "machine":
            found["machine"] = rows[0]
            typer.echo(machine_text(rows[0]))
            continue
        found["suites"][name] = rows
        typer.echo(suite_text(name, rows))
    if wanted.plot is not None:
        found["curves"] = _curves(names, wanted, say)
        _draw(found, wanted.plot)
    found["seconds"], found["cpu_seconds"] = round(time.monotonic() - start), round(sum(os.times()[:4]))
    if wanted.json is not None:
        _write(wanted.json, json.dumps(found, indent=1, allow_nan=False) + "\n")
    say(_last(found))
    return FAILED if any(row["verdict"] == "failed" for rows in found["suites"].values() for row in rows) else OK


def _check(wanted: Wanted) -> None:
    for name in ("threads", "rounds"):
        number = getattr(wanted, name)
        if number is not None and number < 1:
            raise BenchError(f"--{name} {number} is less than 1")
    for path in (wanted.plot, wanted.json):
        if path is not None and not path.resolve().parent.is_dir():
            raise BenchError(f"there is no folder {path.parent} for {path.name}; make it first")
    if wanted.plot is not None:
        import regard.views.plots  # noqa: F401 - says what to install before anything is measured


def _curves(names: list[str], wanted: Wanted, say) -> dict[str, list[dict]]:
    """Cost against length, of the suites that have curves."""
    from regard.bench.lengths import CURVES, curves
    from regard.bench.timing import one_thread
    from regard.views.bench_text import curve_text

    made = {}
    with one_thread(wanted.threads):
        for name in names:
            if name not in CURVES:
                continue
            say(f"{name}: cost against length")
            made[name] = list(curves(name, quick=wanted.quick, rounds=1 if wanted.quick else 3))
            typer.echo(
                "\n".join([f"{name}, cost against length (2 heads of 64, forward)", *map(curve_text, made[name]), ""])
            )
    return made


def _draw(found: dict, path: Path) -> None:
    """Cost against length where a suite has it; the ratios otherwise."""
    from regard.views.plots import cost_by_length, ratio_bars

    curves = {c["name"]: c for made in found["curves"].values() for c in made}
    if curves:
        ax = cost_by_length(list(curves.values()), title="Cost against length")
    else:
        rows = [row for suite in found["suites"].values() for row in suite]
        ax = ratio_bars(rows, title=", ".join(found["suites"]))
    partial = path.with_name(f".{path.name}.part{path.suffix}")
    figure = ax.get_figure(root=True)
    assert figure is not None  # the plot made one
    figure.savefig(partial, dpi=150)
    partial.replace(path)


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _last(found: dict) -> str:
    rows = [row for suite in found["suites"].values() for row in suite]
    absent = sorted({name for row in rows for name in row.get("missing", ())})
    from regard.views.bench_text import counts

    return counts(rows) + (f"; not installed: {', '.join(absent)}" if absent else "")
