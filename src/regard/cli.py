"""The command `regard`: each sub-command is one public function, and its help is that function's first line.

Nothing here imports torch: help, list and rule answer at once, and the checks run in other processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard import cli_experiment, cli_plan, cli_port
from regard.cli_port import refusing as _refusing

app = typer.Typer(
    help="Attention you can trust: find silent bugs in attention code, and see what a model attends to.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET...", help="file.py, file.py:Name, package.module:Name or a folder", show_default=False
    ),
]
Init = Annotated[
    list[str], typer.Option("--init", metavar="NAME=VALUE", help="constructor argument, a Python literal; repeatable")
]
DesignFile = Annotated[Path | None, typer.Option("--design", metavar="FILE.toml", help="what the author declares")]
Seed = Annotated[int, typer.Option("--seed", help="the same seed gives the same report")]
Timeout = Annotated[float, typer.Option("--timeout", help="seconds for one target")]
Memory = Annotated[
    str, typer.Option("--memory", help="what one target may allocate; 0 = no limit (limits hold on Linux)")
]


@app.command()
def check(
    targets: Targets = None,
    init: Init = [],  # noqa: B006 - typer reads the default and never changes it
    design: DesignFile = None,
    select: Annotated[list[str], typer.Option(help="only rules whose code or name begins so; repeatable")] = [],  # noqa: B006
    ignore: Annotated[list[str], typer.Option(help="not these rules; repeatable")] = [],  # noqa: B006
    waive: Annotated[list[str], typer.Option(metavar="CODE=REASON", help="a rule to live with, and why")] = [],  # noqa: B006
    format: Annotated[str, typer.Option(help="text, json, sarif, github or junit")] = "text",
    out: Annotated[Path | None, typer.Option(help="write the report to this file")] = None,
    seed: Seed = 0,
    timeout: Timeout = 60.0,
    memory: Memory = "4GB",
    jobs: Annotated[int, typer.Option(help="targets at once; 0 = one per processor, at most 4")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="exit 2 if any target was not exercised")] = False,
    baseline: Annotated[Path | None, typer.Option(help="JSON report of an earlier run: only what is new fails")] = None,
    durations: Annotated[int, typer.Option(help="print the N slowest checks")] = 0,
    nproc: Annotated[int, typer.Option(help="also cut each module among N processes, as its design says")] = 0,
) -> None:
    """Run every check on attention code and report what is wrong, with the line, the numbers, the cause and the fix.

    Exit status: 1 if anything of level error was found;
    else 2 if a named target, or every target of a folder, was not exercised;
    else 0. What was asked wrongly exits with 2.
    Without TARGET: the targets of pyproject.toml, table tool.regard.check.
    """
    from regard.cli_check import Request, session

    request = Request(
        targets=targets or [],
        init=init,
        design=design,
        select=select,
        ignore=ignore,
        waive=waive,
        format=format,
        out=out,
        seed=seed,
        timeout=timeout,
        memory=memory,
        jobs=jobs,
        strict=strict,
        baseline=baseline,
        durations=durations,
        nproc=nproc,
    )
    raise typer.Exit(_refusing(lambda: session(request)))


@app.command()
def explain(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="file.py:Name or package.module:Name")],
    init: Init = [],  # noqa: B006
    design: DesignFile = None,
    seed: Seed = 0,
    timeout: Timeout = 60.0,
    memory: Memory = "4GB",
) -> None:
    """Say how a target is built and called, what was inferred about it, and what could not be; no rule is applied."""
    from regard.cli_check import Request, explain_session

    request = Request(targets=[target], init=init, design=design, seed=seed, timeout=timeout, memory=memory)
    raise typer.Exit(_refusing(lambda: explain_session(request)))


@app.command("list")
def list_(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="a folder or a file")]) -> None:
    """List the attention that stands in the Python files of a folder; reads them, and imports and runs nothing."""
    from regard.checks.discover import discover

    found, unreadable = _refusing(lambda: discover(folder))
    for candidate in found:
        typer.echo(f"{candidate.file}:{candidate.line}: {candidate.kind} {candidate.name} ({candidate.why})")
    for bad in unreadable:
        typer.echo(f"{bad.file}: cannot be read: {bad.reason}", err=True)
    typer.echo(f"{len(found)} found, {len(unreadable)} files could not be read", err=True)


@app.command()
def rule(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="such as ATT101, or a rule's name")] = None,
) -> None:
    """Print the page of a rule: what goes wrong, why it matters, usual causes, bad and good code. Without CODE: all rules."""
    from regard.checks import pages

    if code is not None:
        typer.echo(_refusing(lambda: pages.page(code)).text())
        return
    every = pages.pages()
    width = max(len(page.name) for page in every)
    for page in every:
        typer.echo(f"{page.code}  {page.name.ljust(width)}  {page.title}")
    typer.echo(f"{len(every)} rules", err=True)


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="what regard.watch(model, out=...) wrote")],
    format: Annotated[str, typer.Option(help="text or json")] = "text",
    against: Annotated[Path | None, typer.Option(help="the file of a run that should be equal to this one")] = None,
) -> None:
    """Say what is wrong with a training run that was watched, the likely causes in order, and the check for each.

    Exit status: 1 if anything was found, else 0; what was asked wrongly exits with 2.
    """
    from regard.cli_diagnose import diagnose_session

    raise typer.Exit(_refusing(lambda: diagnose_session(file, against, format)))


@app.command()
def view(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_OR_CAPTURE", help="a saved capture, a model folder, or a package that carries one"
        ),
    ],
    text: Annotated[str | None, typer.Option(help="what the model reads")] = None,
    out: Annotated[Path, typer.Option(help="where the page goes")] = Path("attention.html"),
    level: Annotated[str, typer.Option(help="full, rows or summary")] = "full",
    language: Annotated[str, typer.Option(help="of the page: auto, en or zh")] = "auto",
) -> None:
    """Write what a model attends to as one offline page."""
    from regard.cli_view import say, view_session

    say(_refusing(lambda: view_session(source, text, out, level, language)))


@app.command()
def bench(
    suites: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE...", help="attention, window, decode, linear, vision, statistics, capture, ... or all"
        ),
    ],
    against: Annotated[
        str, typer.Option(metavar="PEER,...", help="only lines against these peers; a part of the name is enough")
    ] = "",
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.svg", help="draw cost against length, or the ratios")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="OUT.json", help="write machine, limits and rows")] = None,
    threads: Annotated[int, typer.Option(help="ratios of one thread hold on a busy machine; those of more do not")] = 1,
    rounds: Annotated[int | None, typer.Option(help="how often each pair takes turns; 9 when not said")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="small sizes, two rounds: to see that everything runs")
    ] = False,
) -> None:
    """Measure ours against its peers as ratios of CPU time in turn, with targets, memory and the share of the machine's limit.

    Exit status: 0 when everything was measured, also where a row falls short of its target;
    1 when a line failed; 2 when it was asked wrongly.
    A peer that is not installed is a row that says so.
    """
    from regard.cli_bench import Wanted, bench_session

    wanted = Wanted(suites, against, plot, json, threads, rounds, quick)
    raise typer.Exit(_refusing(lambda: bench_session(wanted)))


@app.command()
def train(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="without it: the tasks there are")] = None,
    data: Annotated[str | None, typer.Option(help="your files, a named default or hub:NAME")] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the run; runs/TASK when not said")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on where the run in --out stopped")] = False,
    seed: Annotated[int, typer.Option(help="the same seed gives the same losses")] = 0,
    steps: Annotated[int, typer.Option(help="optimiser steps; 0 = as the recipe has it")] = 0,
    minutes: Annotated[float, typer.Option(help="as many steps as fit; measured once and written down")] = 0.0,
    batch: Annotated[int, typer.Option(help="samples of a step")] = 0,
    lr: Annotated[float, typer.Option(help="the highest learning rate")] = 0.0,
    long: Annotated[bool, typer.Option("--long", help="the long form of the recipe")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="the table of the recipe's variants")] = False,
    seeds: Annotated[int, typer.Option(help="of each variant, with --compare")] = 3,
    settings: Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="a setting of the recipe")] = [],  # noqa: B006
    accumulate: Annotated[int, typer.Option(help="pieces that a batch is computed in")] = 1,
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float16")] = "float32",
    patience: Annotated[int, typer.Option(help="evaluations without improvement that end a run; 0 = none")] = 0,
    save: Annotated[int, typer.Option(help="steps between checkpoints")] = 100,
    watch: Annotated[int, typer.Option(help="steps between records of regard.watch; 0 = off")] = 100,
    compile: Annotated[bool, typer.Option("--compile", help="train through torch.compile")] = False,
    record: Annotated[str | None, typer.Option(metavar="LABEL[=FILE]", help="keep the result in a file")] = None,
    results: Annotated[bool, typer.Option("--results", help="print the marks and what was reached")] = False,
) -> None:
    """Train a model of ours on a task with real data, test it, and say what simpler ways reach.

    Under torchrun the processes share each batch. Ctrl-C saves; kill -9 loses at most --save steps, and --resume gives the losses of
    a run that was not stopped. Exit status: 130 after Ctrl-C; 2 when it was asked wrongly or the data cannot be read; else 0.
    """
    from regard.cli_train import train_session, wanted

    given = {**locals()}
    raise typer.Exit(_refusing(lambda: train_session(wanted(given))))


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="the --out folder of regard train")],
    text: Annotated[str, typer.Argument(metavar="INPUT", help="a text, or the path of a file, as the task reads it")],
) -> None:
    """Say what a trained recipe makes of an input of yours."""
    from regard.cli_train import predict_session

    _refusing(lambda: predict_session(folder, text))


for command in (cli_port.align, cli_port.export, cli_port.conventions, cli_plan.plan, cli_experiment.experiment):
    app.command()(command)


def main() -> None:
    """Entry point of the command. A fault of our own exits with 2, never with the 1 that says that something was found."""
    import os
    import sys
    import traceback

    try:
        app()
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception:
        traceback.print_exc()
        typer.echo("regard: this is a fault in regard itself; please report it with the lines above", err=True)
        sys.exit(2)
