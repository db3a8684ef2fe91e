"""One run of `regard view`: a capture file, or a model and a text, becomes one offline page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import typer

from regard.core.errors import CaptureError, MissingExtraError


def view_session(source: str, text: str | None, out: Path, level: str, language: str) -> Path:
    """Write the page and return its path.

    Args:
        source: A file that a capture was saved to, or the folder of a `regard train` run, or one with a Hugging Face model and its
            tokenizer, or the name of an installed package that carries such a folder.
        text: What the model reads; needed for a model.

    Raises:
        CaptureError: No such file, folder or package; a model without a text; no attention seen.
        MissingExtraError: transformers or safetensors is not installed.
    """
    if not out.resolve().parent.is_dir():
        raise CaptureError(f"there is no folder {out.parent}; make it first")
    if source.endswith(".safetensors") and Path(source).is_file():
        from regard.recording.store import load

        return load(source).to_html(out, language=language)
    folder = _folder(source)
    if text is None:
        raise CaptureError(f"{source} is a model: say what it reads with --text")
    if "regard" in json.loads((folder / "config.json").read_text(encoding="utf-8")):
        from regard.cli_train import captured_recipe

        return captured_recipe(folder, text, level).to_html(out, language=language)
    model, tokenizer = _model(folder)
    return _captured(model, tokenizer, text, level).to_html(out, language=language)


def _folder(source: str) -> Path:
    """The folder with config.json: the path itself, or inside the installed package of that name."""
    if (Path(source) / "config.json").is_file():
        return Path(source)
    import importlib.util

    name = source.replace("-", "_")
    found = importlib.util.find_spec(name) if name.isidentifier() else None
    for place in (found.submodule_search_locations or []) if found is not None else []:
        for config in sorted(Path(place).glob("**/config.json")):
            if (config.parent / "tokenizer.json").is_file():
                return config.parent
    raise CaptureError(
        f"{source} is no capture file, no folder with a config.json and no installed package that carries a model"
    )


def _model(folder: Path) -> tuple[Any, Any]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError('a Hugging Face model needs transformers: pip install "regard[hf]"') from error
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def _captured(model: Any, tokenizer: Any, text: str, level: str) -> Any:
    import torch

    from regard.recording.capture import capture
    from regard.recording.tokens import Tokens

    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad(), capture(model, level=level, tokens=Tokens.from_tokenizer(tokenizer, text)) as cap:
        model(**inputs)
    return cap


def say(path: Path) -> None:
    """The path, and how large the file is."""
    typer.echo(f"{path}  ({path.stat().st_size / 1e6:.1f} MB, opens in a browser, needs no network)")
