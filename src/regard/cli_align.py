"""One run of `regard align`: two models, one input, the first place where they part; text or JSON on stdout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import typer

from regard.core.errors import ConversionError

FORMATS = ("text", "json")
SHAPES = "2,7,32 (normal), int:2,7:100 (whole numbers below 100), bool:2,7, or a .npy file"


def align_session(
    reference: str, candidate: str, inputs: list[str], pairs: list[str], seed: int, format: str, out: Path | None
) -> int:
    """Print where they part; 1 if they do, else 0.

    Raises:
        ConversionError, TargetError: A target, an input or a pair that cannot be read.
    """
    os.environ.setdefault("KERAS_BACKEND", "torch")
    if format not in FORMATS:
        raise ConversionError(f"--format {format!r} is not one of {', '.join(FORMATS)}")
    if not inputs:
        raise ConversionError(f"--input is missing: {SHAPES}; repeat it for more inputs, name=... for a keyword")
    from regard.convert.alignment import align

    given, named = read_inputs(inputs, seed)
    said = dict(_pair(text) for text in pairs) or None
    found = align(made(reference), made(candidate), given, named=named, pairs=said)
    text = json.dumps(found.json(), indent=2) if format == "json" else str(found)
    typer.echo(text)
    if out is not None:
        out.write_text(json.dumps(found.json(), indent=2), encoding="utf-8")
    return 0 if found.ok else 1


def made(target: str) -> Any:
    """What "file.py:name" gives: a model as it is, a class or a function called without arguments.

    Raises:
        ConversionError: It cannot be called without arguments, or gives no model.
    """
    from torch import nn

    from regard.adapt.keras_layers import is_keras
    from regard.checks.load import load

    found = load(target).obj
    if not isinstance(found, nn.Module) and not (is_keras(found) and not isinstance(found, type)):
        try:
            found = found()
        except Exception as error:  # the user's code may raise anything
            raise ConversionError(
                f"{target} could not be called without arguments ({type(error).__name__}: {error}); name a function that "
                "returns the model"
            ) from error
    if not isinstance(found, nn.Module) and not is_keras(found):
        raise ConversionError(f"{target} gives {type(found).__name__}; a torch module or a Keras model was expected")
    return found


def read_inputs(texts: list[str], seed: int) -> tuple[list[Any], dict[str, Any]]:
    """Tensors by position and by name, the same for the same seed.

    Raises:
        ConversionError: A text that says no input.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    given: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        tensor = _tensor(rest if equals else text, generator)
        if equals:
            named[name] = tensor
        else:
            given.append(tensor)
    return given, named


def _tensor(text: str, generator: Any) -> Any:
    import numpy as np
    import torch

    if text.endswith(".npy"):
        try:
            return torch.from_numpy(np.load(text, allow_pickle=False))
        except (OSError, ValueError) as error:
            raise ConversionError(f"--input {text} cannot be read: {error}") from error
    kind, _, rest = text.rpartition(":") if text.startswith(("bool:", "int:")) else ("", "", text)
    try:
        if kind == "bool":
            return torch.rand(_sizes(rest), generator=generator) > 0.3
        if kind.startswith("int:"):
            return torch.randint(0, int(rest), _sizes(kind[4:]), generator=generator)
        return torch.randn(_sizes(rest), generator=generator)
    except (ValueError, RuntimeError):
        raise ConversionError(f"--input {text!r} is none of {SHAPES}") from None


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if min(sizes) < 1:
        raise ValueError(text)
    return sizes


def _pair(text: str) -> tuple[str, str]:
    here, equals, there = text.partition("=")
    if not equals or not here or not there:
        raise ConversionError(f"--pair {text!r}: give REFERENCE_NAME=CANDIDATE_NAME")
    return here, there
