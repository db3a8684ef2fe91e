"""Records in one safetensors file: written whole or not at all, readable by any safetensors reader.

Tensors are named "INDEX/NAME" (see `Record.arrays`); everything else is JSON under the key "regard" of the file's metadata.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import CaptureError, MissingExtraError
from regard.recording.record import FORMAT, Record
from regard.recording.tokens import Tokens

if TYPE_CHECKING:
    from regard.recording.capture import capture


class Saved:
    """A capture read from a file: `records`, `missed`, `tokens`, and the same views."""

    def __init__(self, records: list[Record], missed: list[str], tokens: Tokens | None, model: str):
        self.records, self.missed, self.tokens, self.model_name = records, missed, tokens, model

    def to_html(self, path: str | Path, tokens=None, **options) -> Path:
        """Write the explorer. Tokens and options as for `recording.page.to_html`."""
        from regard.recording.page import to_html

        options = {"title": f"{self.model_name}: attention", "missed": self.missed} | options
        return to_html(self.records, self.tokens if tokens is None else tokens, path, **options)


def save(cap: capture | Saved, path: str | Path) -> Path:
    """Write the records of a capture.

    Raises:
        CaptureError: There is no record, or no such folder.
        MissingExtraError: safetensors is not installed.
    """
    torch_save = _safetensors("save_file")
    path = Path(path)
    if not cap.records:
        raise CaptureError("there is no record to save; run the model inside the capture first")
    if not path.parent.is_dir():
        raise CaptureError(f"there is no folder {path.parent}; make it first")
    arrays = {f"{i}/{name}": x.contiguous() for i, r in enumerate(cap.records) for name, x in r.arrays().items()}
    tokens = cap.tokens
    about = {
        "format": FORMAT,
        "model": getattr(cap, "model_name", None) or type(getattr(cap, "model", None)).__name__,
        "records": [r.meta() for r in cap.records],
        "missed": cap.missed,
        "tokens": None
        if tokens is None
        else {"labels": tokens.labels, "text": tokens.text, "offsets": tokens.offsets, "words": tokens.words},
    }
    if tokens is not None and tokens.ids is not None:
        arrays["tokens/ids"] = tokens.ids.contiguous()
    handle, beside = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    os.close(handle)
    try:
        torch_save({name: x.clone() for name, x in arrays.items()}, beside, metadata={"regard": json.dumps(about)})
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return path


def load(path: str | Path) -> Saved:
    """Read what `save` wrote.

    Raises:
        CaptureError: The file is cut off, is not a capture, or is of a newer version.
    """
    safe_open = _safetensors("safe_open")
    path = Path(path)
    if not path.is_file():
        raise CaptureError(f"there is no file {path}")
    try:
        with safe_open(str(path), framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("regard", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()} if _ours(about) else {}  # noqa: SIM118
    except Exception as error:  # the reader raises its own kind for anything that is not a whole file
        raise CaptureError(f"{path} cannot be read, it may be cut off: {error}") from error
    if not isinstance(about, dict) or "format" not in about:
        raise CaptureError(f"{path} is a safetensors file, but not a capture")
    if about["format"] > FORMAT:
        raise CaptureError(
            f"{path} is of format {about['format']} and this version of regard reads up to {FORMAT}; update regard"
        )
    records = []
    for i, meta in enumerate(about["records"]):
        mine = {name.split("/", 1)[1]: x for name, x in arrays.items() if name.startswith(f"{i}/")}
        records.append(Record.build(meta, mine))
    tokens = about.get("tokens")
    tokens = None if tokens is None else Tokens(tokens.pop("labels"), ids=arrays.get("tokens/ids"), **tokens)
    if tokens is not None and tokens.offsets is not None:
        tokens.offsets = [(int(a), int(b)) for a, b in tokens.offsets]
    return Saved(records, about["missed"], tokens, about["model"])


def _ours(about) -> bool:
    return isinstance(about, dict) and about.get("format", FORMAT + 1) <= FORMAT


def _safetensors(name: str) -> Any:
    try:
        if name == "save_file":
            from safetensors.torch import save_file

            return save_file
        from safetensors import safe_open

        return safe_open
    except ImportError as error:
        raise MissingExtraError("saving and loading captures needs safetensors: pip install 'regard[hf]'") from error
