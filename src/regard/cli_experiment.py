"""`regard experiment`: the claims of the founding tutorials, run, listed and written as a page. Nothing here imports torch before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli_port import refusing

ACTIONS = ("list", "run", "report")
BENCH = Path("docs/bench/claims.json")


def experiment(
    action: Annotated[str, typer.Argument(metavar="list|run|report", help="what to do")] = "list",
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="with run: experiments, or all")] = None,
    long: Annotated[bool, typer.Option("--long", help="with run: also what takes hours")] = False,
    again: Annotated[bool, typer.Option("--again", help="with run: measure anew what is stored")] = False,
    results: Annotated[Path, typer.Option(help="folder of the stored numbers")] = Path("docs/claims"),
    docs: Annotated[Path, typer.Option(help="with report: folder of the pages")] = Path("docs"),
) -> None:
    """Put the claims of the founding tutorials to the test: list them, run what is missing, write the pages.

    A run stores its numbers after each seed and goes on where it stopped. Exit status: 0 whatever the verdicts; 130 after Ctrl-C;
    2 when it was asked wrongly or an experiment could not be run.
    """
    raise typer.Exit(refusing(lambda: experiment_session(action, names or [], long, again, results, docs)))


def experiment_session(action: str, names: list[str], long: bool, again: bool, results: Path, docs: Path) -> int:
    """One command.

    Raises:
        DataError: An unknown action or name (with those that there are).
    """
    from regard.core.errors import DataError

    if action not in ACTIONS:
        raise DataError(f"regard experiment {action}: it is one of {', '.join(ACTIONS)}")
    if action != "run" and names:
        raise DataError(f"regard experiment {action} takes no names; got {' '.join(names)}")
    if action == "list":
        return _list(results)
    return _report(results, docs) if action == "report" else _run(names, long, again, results)


def _list(results: Path) -> int:
    from regard.recipes.experiments.every import claims
    from regard.recipes.experiments.stored import verdict_of

    known = claims()
    width = max(len(name) for name in known)
    for name, claim in known.items():
        verdict, _ = verdict_of(claim, results)
        typer.echo(f"{name:<{width}}  {verdict + (' (--long)' if claim.long else ''):<26}  {claim.says[0]}")
    typer.echo(f"{len(known)} experiments", err=True)
    return 0


def _run(names: list[str], long: bool, again: bool, results: Path) -> int:
    from regard.core.errors import DataError
    from regard.recipes.experiments.every import claims, named
    from regard.recipes.experiments.stored import run_claim

    failed, left = [], []
    for claim in named(names, claims()):
        if claim.long and not long:
            left.append(claim.name)
            continue
        try:
            found = run_claim(claim, results, lambda line: typer.echo(line, err=True), again=again)
        except KeyboardInterrupt:
            typer.echo("stopped; the same command goes on with the seed that was cut short", err=True)
            return 130
        except DataError as error:
            if len(names) == 1 and names != ["all"]:
                raise
            failed.append(claim.name)
            typer.echo(f"{claim.name}: could not be run: {error}", err=True)
            continue
        typer.echo(f"{claim.name}: {claim.verdict(found)}. {claim.measured[0].format_map(found.spreads)}")
    if left:
        typer.echo(f"not run without --long: {', '.join(left)}", err=True)
    return 2 if failed else 0


def _report(results: Path, docs: Path) -> int:
    from regard.recipes.experiments.every import groups
    from regard.recipes.experiments.report import write

    for path in write(groups(), results, docs, BENCH):
        typer.echo(path.as_posix())
    return 0
