"""One run of `regard conventions`: what the installed libraries mean, read from their outputs."""

from __future__ import annotations

import importlib.util
import json
import os

import typer


def conventions_session(name: str | None, format: str) -> int:
    """Print a block per library; 0.

    Raises:
        ConversionError: No such library or format, or it is not installed.
    """
    from regard.core.errors import ConversionError

    if format not in ("text", "json"):
        raise ConversionError(f"--format {format!r} is not one of text, json")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from dataclasses import asdict

    from regard.bench.timm_peer import load_timm
    from regard.convert.conventions import conventions, table

    if importlib.util.find_spec("timm") is not None and (name is None or "timm" in name.lower()):
        load_timm("layers.attention", "layers.pos_embed_sincos")  # where torchvision is missing, too
    rows = conventions(name)
    typer.echo(json.dumps([asdict(row) for row in rows], indent=2) if format == "json" else table(rows))
    return 0
