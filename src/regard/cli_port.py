"""The commands for those who port: align, export, conventions. Nothing here imports torch before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def refusing(work):
    """Run, and turn what regard refuses into one sentence on stderr and exit status 2."""
    from regard.core.errors import RegardError

    try:
        return work()
    except RegardError as error:
        typer.echo(f"regard: {error}", err=True)
        raise typer.Exit(2) from None


def align(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="file.py:name of a model, or of what makes one")
    ],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="the same of the port; torch or Keras")],
    input: Annotated[
        list[str], typer.Option(help="2,7,32 or int:2,7:100 or bool:2,7 or x.npy; NAME=... by keyword; repeatable")
    ] = [],  # noqa: B006
    pair: Annotated[list[str], typer.Option(metavar="NAME=NAME", help="modules that belong together; repeatable")] = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="the same seed gives the same inputs")] = 0,
    format: Annotated[str, typer.Option(help="text or json")] = "text",
    out: Annotated[Path | None, typer.Option(help="write the JSON to this file too")] = None,
) -> None:
    """Run two models on the same input, and say where they first part, how far, and why.

    Exit status: 1 if they part, else 0; what was asked wrongly exits with 2. Runs both models' code.
    """
    from regard.cli_align import align_session

    raise typer.Exit(refusing(lambda: align_session(reference, candidate, input, pair, seed, format, out)))


def export(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="file.py:name of an attention module")],
    out: Annotated[Path, typer.Option(help="FILE.onnx, or FILE.pt2 for torch.export")],
    takes: Annotated[list[str], typer.Option(help="keep, mask, context or cache; repeatable")] = [],  # noqa: B006
    opset: Annotated[int | None, typer.Option(help="of ONNX; 23 or later")] = None,
) -> None:
    """Write an attention module to ONNX or torch.export with any batch and length, compared with it first."""
    from regard.cli_export import export_session

    raise typer.Exit(refusing(lambda: export_session(target, out, takes, opset)))


def conventions(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="part of a library's name; without: all")] = None,
    format: Annotated[str, typer.Option(help="text or json")] = "text",
) -> None:
    """Say what other libraries mean by True, causal, window and heads, read from their outputs where they are installed."""
    from regard.cli_conventions import conventions_session

    raise typer.Exit(refusing(lambda: conventions_session(name, format)))
