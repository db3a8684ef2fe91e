"""What a run tells: a JSON line per step and per evaluation always, a progress bar on a terminal, TensorBoard where it is installed."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from regard.recipes.checkpoint import write_whole
from regard.recording.watch_sinks import tensorboard_sink

NAME = "journal.jsonl"


class Journal:
    """`journal.row(step, loss=...)`.

    Args:
        folder: Of the run; the lines are appended to `journal.jsonl` there. None: this process is not the one that tells.
        steps: Of the whole run.
        begin: The step it begins at. Lines of later steps are dropped: they are of a run that was killed after its last checkpoint.
    """

    def __init__(self, folder: Path | None, steps: int, begin: int = 0):
        self.folder, self.steps = folder, steps
        self._file = self._bar = self._board = None
        self._begun = time.perf_counter()
        if folder is None:
            return
        rows = [row for row in read(folder) if row["step"] <= begin] if begin else []
        write_whole(folder / NAME, "".join(json.dumps(row) + "\n" for row in rows).encode())
        self._file = (folder / NAME).open("a", encoding="utf-8")
        self._board = tensorboard_sink(str(folder / "tensorboard"))
        if sys.stderr.isatty():
            self._bar, self._task = _bar(steps, begin)

    def row(self, step: int, **values: Any) -> None:
        """Note numbers; `step` is how many steps are done."""
        if self._file is None:
            return
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            self._board.write({"step": step, **values})
        if self._bar is not None and "loss" in values:
            self._bar.update(self._task, completed=step, loss=f"{values['loss']:.4f}")
        if "loss" not in values:
            self.say(f"step {step}/{self.steps}  " + "  ".join(_shown(name, value) for name, value in values.items()))

    def say(self, text: str) -> None:
        """A line for people, on stderr."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        elif self._file is not None:
            print(text, file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        """Since it was opened."""
        return time.perf_counter() - self._begun

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: Any) -> None:
        """Close file, bar and board."""
        for each in (self._file, self._board):
            if each is not None:
                each.close()
        if self._bar is not None:
            self._bar.stop()


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run so far; a last line that a kill cut off is left out."""
    rows = []
    path = folder / NAME
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def _shown(name: str, value: Any) -> str:
    return f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value}"


def _bar(steps: int, begin: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]}"), TimeElapsedColumn(), TextColumn("left"),
               TimeRemainingColumn())  # fmt: skip
    bar = Progress(*columns, console=Console(stderr=True))
    bar.start()
    return bar, bar.add_task("", total=steps, completed=begin, loss="-")


def tell(text: str) -> None:
    """A line for people outside a run, on stderr."""
    print(text, file=sys.stderr, flush=True)
