"""Where the rows of `watch` go: a JSON-lines file that can be read while it grows, and TensorBoard where it is installed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, TextIO

log = logging.getLogger("regard.watch")


class JsonLines:
    """One object per line; each line is written whole and flushed at once."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO | None = self.path.open("w", encoding="utf-8")

    def write(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(row, allow_nan=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class TensorBoard:
    """Every number of a row as a scalar: "attention/layer 3/entropy", its mean over the heads; "train/loss"."""

    def __init__(self, writer: Any, owned: bool):
        self.writer, self.owned = writer, owned

    def write(self, row: dict[str, Any]) -> None:
        if "step" not in row:
            return
        group = f"attention/layer {row['layer']}" if "layer" in row else "train"
        for name, value in row.items():
            if name in ("step", "layer") or isinstance(value, (str, bool, dict)):
                continue
            numbers = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, (int, float))]
            if numbers:
                self.writer.add_scalar(f"{group}/{name}", sum(numbers) / len(numbers), row["step"])

    def close(self) -> None:
        if self.owned:
            self.writer.close()


def tensorboard_sink(target: Any) -> TensorBoard | None:
    """A sink for a SummaryWriter (anything with add_scalar) or a folder; None where TensorBoard is not installed."""
    if target is None:
        return None
    if hasattr(target, "add_scalar"):
        return TensorBoard(target, owned=False)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        log.info("TensorBoard is not installed: nothing is written to %s", target)
        return None
    return TensorBoard(SummaryWriter(str(target)), owned=True)
