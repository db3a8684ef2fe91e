"""`regard.watch`: a training run seen from inside its attention, at chosen steps, with the run left bit for bit as it is.

At every `every`-th step one forward pass is observed; a few numbers per layer and head become rows of a JSON-lines file (and
TensorBoard). `diagnosis()` turns the rows into what is wrong with the run, the likely causes in order, and the check for each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import CaptureError
from regard.recording.diagnosis import Diagnosis
from regard.recording.diagnosis_rules import diagnose
from regard.recording.watch_memory import memory_now
from regard.recording.watch_pass import EVAL_PASSES, PASSES, Pass, Watcher
from regard.recording.watch_projections import ROLES, GradientNorms, Projection, projections
from regard.recording.watch_scores import as_row
from regard.recording.watch_sinks import JsonLines, tensorboard_sink

FORMAT = 1
TRACES = 3  # steps after a non-finite loss that are observed whatever the interval


class watch:
    """Watch a model while it trains: `with regard.watch(model, out="run.jsonl") as run: ...; run.step(loss)` at each step's end.

    Watching begins with the object; leaving the context, or `close()`, ends it. Outputs, gradients and random numbers are those
    of a run without it.

    Args:
        model: Any nn.Module, the one whose forward is called.
        every: Steps between two records; step 0 is recorded. A record costs about two forward passes.
        out: JSON-lines file, one row per recorded step and layer; None keeps the rows in `rows` only.
        tensorboard: A folder or a SummaryWriter; ignored where TensorBoard is not installed.
        baseline: The validation loss before attention was added to the model, where that is what is being done.

    Attributes:
        rows: The rows so far. A layer's row has "step", "layer", "path", and per head "logit_std", "logit_max", "entropy", "max",
            "first", "last", "ahead", "similarity" (see `watch_scores`), "masked_rows", "grad_query", "grad_key", "grad_value".
        cost: Share of the run's time that watching took so far; None before two steps of each kind.

    Raises:
        CaptureError: Not a module, an interval below 1, or a file that cannot be written.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 50,
        out: str | Path | None = None,
        tensorboard: Any = None,
        baseline: float | None = None,
    ):
        if not isinstance(model, nn.Module):
            raise CaptureError(f"watch needs an nn.Module, got {type(model).__name__}")
        if not isinstance(every, int) or every < 1:
            raise CaptureError(f"every={every!r} is not a number of steps; it must be 1 or more")
        self.model, self.every, self.at = model, every, 0
        self.rows: list[dict[str, Any]] = []
        try:
            self._sinks: list[Any] = [] if out is None else [JsonLines(out)]
        except OSError as error:
            raise CaptureError(f"the rows cannot be written to {out}: {error.strerror}") from error
        board = tensorboard_sink(tensorboard)
        self._sinks += [board] if board is not None else []
        self._layers: dict[tuple[str, int], int] = {}
        self._found: dict[str, list[Projection]] = {}
        self._last: dict[tuple[str, str], Tensor] = {}  # (path, role) -> entries at the record before
        self._gradients: dict[str, GradientNorms] = {}
        self._passes: list[Pass] = []
        self._evals: list[Pass] = []
        self._losses: list[tuple[int, Tensor]] = []
        self._traces = 0
        self._closed = False
        self._spent = {True: [0, 0.0], False: [0, 0.0]}  # recorded or not -> steps, seconds
        self._clock = time.perf_counter()
        self._write({"watch": FORMAT, "every": every, "model": type(model).__name__, "baseline": baseline})
        self._watcher = Watcher(model, self._take)
        self._recording = True
        self._watcher.start(PASSES)

    def __enter__(self) -> watch:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def step(self, loss: Tensor | float | None = None) -> None:
        """End a training step. `loss` may be left out where the model's output has one (`output.loss`)."""
        if self._closed:
            raise CaptureError("this watch is closed; make a new one for a new run")
        bad = self._note_loss(loss)
        if self._recording:
            self._record()
        count = self._spent[self._recording]
        if self.at:  # the first step warms caches up, with and without us
            count[0], count[1] = count[0] + 1, count[1] + time.perf_counter() - self._clock
        self.at += 1
        if bad:
            self._traces += 1
        self._arm(self.at % self.every == 0 or (bad and self._traces <= TRACES))
        self._clock = time.perf_counter()

    def log(self, *, loss: float | None = None, validation_loss: float | None = None) -> None:
        """Note a loss that was measured elsewhere: a mean over steps, or a validation loss."""
        row = {"loss": loss, "validation_loss": validation_loss}
        self._write({"step": max(self.at - 1, 0)} | {k: _finite(float(v)) for k, v in row.items() if v is not None})

    @contextmanager
    def validating(self) -> Iterator[watch]:
        """Around a validation: its first forward passes are observed, to be compared with training."""
        self.begin_validation()
        try:
            yield self
        finally:
            self.end_validation()

    def begin_validation(self) -> None:
        """What `validating` does on entry; for callbacks."""
        begun = time.perf_counter()
        self._watcher.stop()
        self._watcher.start(EVAL_PASSES, validating=True)
        self._paused = begun

    def end_validation(self) -> None:
        """What `validating` does on exit."""
        self._watcher.stop()
        for number, seen in enumerate(self._evals):
            self._write_eval(number, seen)
        self._evals.clear()
        self._arm(self._recording)
        self._clock += time.perf_counter() - self._paused

    def close(self) -> None:
        """Stop watching, write what is pending, close the file. Calling it again does nothing."""
        if self._closed:
            return
        self._watcher.stop()
        for gradients in self._gradients.values():
            gradients.close()
        if self._losses:
            self._write(self._loss_row(self._losses[-1][0]))
        self._closed = True
        for sink in self._sinks:
            sink.close()

    def diagnosis(self) -> Diagnosis:
        """What is wrong with the run so far: symptoms, likely causes in order, the check that would confirm each."""
        pending = [self._loss_row(self._losses[-1][0], keep=True)] if self._losses else []
        return diagnose([*self.rows, *pending])

    @property
    def cost(self) -> float | None:
        """Share of the time spent on watching: what recorded steps took longer than the others."""
        (records, took), (plain, usual) = self._spent[True], self._spent[False]
        if records < 2 or plain < 2:
            return None
        return max(0.0, (took - records * usual / plain) / (took + usual))

    @staticmethod
    def for_trainer(**options: Any) -> Any:
        """A callback for `transformers.Trainer` (see `watch_callbacks.for_trainer`)."""
        from regard.recording.watch_callbacks import for_trainer

        return for_trainer(**options)

    @staticmethod
    def for_lightning(**options: Any) -> Any:
        """A callback for Lightning's Trainer (see `watch_callbacks.for_lightning`)."""
        from regard.recording.watch_callbacks import for_lightning

        return for_lightning(**options)

    def _arm(self, record: bool) -> None:
        self._recording = record
        if record:
            self._watcher.start(PASSES)
        else:
            self._watcher.stop()

    def _note_loss(self, loss: Tensor | float | None) -> bool:
        """Keep a step's loss on its device; True if it is known now that it is not finite (a GPU is not waited for)."""
        if loss is None:
            loss = next((p.loss for p in reversed(self._passes) if p.loss is not None), None)
        if loss is None:
            return False
        kept = loss.detach() if isinstance(loss, Tensor) else torch.tensor(float(loss))
        self._losses.append((self.at, kept))
        return kept.device.type == "cpu" and not math.isfinite(float(kept))

    def _take(self, seen: Pass) -> None:
        """One forward pass is over."""
        if not seen.training:
            judged = seen.validating or not self.model.training  # else no_grad inside training: a target network
            if judged and len(self._evals) < EVAL_PASSES:
                self._evals.append(seen)
            return
        self._passes.append(seen)
        for path, _, scores, extra in seen.sites:
            if path not in self._found:
                self._found[path] = projections(self.model, path, scores.heads, extra["kv_heads"])
            if path not in self._gradients and self._found[path]:
                self._gradients[path] = GradientNorms(self._found[path])

    def _record(self) -> None:
        """Write the rows of the step that ends now."""
        gradients = {path: g.close() for path, g in self._gradients.items()}
        self._gradients.clear()
        done: set[int] = set()
        for seen in self._passes:
            for path, place, scores, extra in seen.sites:
                layer = self._layer(path, place)
                if layer not in done:
                    done.add(layer)
                    row = {"step": self.at, "layer": layer, "path": path, **extra, **as_row(scores)}
                    self._write(row | self._learning(path, gradients.get(path, {})))
        self._write(self._step_row(gradients))
        self._passes.clear()
        for number, seen in enumerate(self._evals):  # evaluation without `validating`
            self._write_eval(number, seen)
        self._evals.clear()

    def _step_row(self, gradients: dict[str, dict[str, float | None]]) -> dict[str, Any]:
        row: dict[str, Any] = self._loss_row(self.at) if self._losses else {"step": self.at}
        memory = memory_now(self.model)
        if memory is not None:
            row["memory_of"], row["memory"] = memory
        padding = next((p for seen in self._passes if (p := seen.padding_row())), None)
        if padding:
            row["padding"] = padding
        broken = next((seen.broken for seen in self._passes if seen.broken), None)
        in_gradient = [
            (p, n) for p, g in gradients.items() for n, v in g.items() if v is not None and not math.isfinite(v)
        ]
        if broken:
            row["nonfinite"] = broken
        elif in_gradient:
            path, name = in_gradient[-1]  # the last layer's gradient is made first
            row["nonfinite"] = {"what": "gradient", "path": path, "where": self._where(path), "role": name[5:],
                                "masked_rows": self._masked(path), "parameters_finite": True}  # fmt: skip
        unknown = [text for seen in self._passes for text in seen.unknown]
        return row | ({"not_understood": sorted(set(unknown))[:5]} if unknown else {})

    def _loss_row(self, step: int, keep: bool = False) -> dict[str, Any]:
        """The mean of the losses since the last row, and the first step at which one was not finite."""
        device = self._losses[-1][1].device
        values = torch.stack([x.reshape(()).to(device, torch.float64) for _, x in self._losses]).tolist()
        bad = [at for (at, _), v in zip(self._losses, values) if not math.isfinite(v)]
        good = [v for v in values if math.isfinite(v)]
        row: dict[str, Any] = {"step": step, "loss": _finite(sum(good) / len(good)) if good else None}
        row |= {"losses": len(values)} | ({"loss_nonfinite_at": bad[0]} if bad else {})
        if not keep:
            self._losses.clear()
        return row

    def _learning(self, path: str, norms: dict[str, float | None]) -> dict[str, Any]:
        """Gradient norms, which projections are frozen, and how far each moved since the last record."""
        row: dict[str, Any] = {f"grad_{role}": _finite(norms.get(f"grad_{role}")) for role in ROLES}
        found = self._found.get(path, [])
        row["projections"] = sorted({p.role for p in found})
        row["frozen"] = sorted({p.role for p in found if not p.parameter.requires_grad})
        for p in found:
            now, before = p.sample(), self._last.get((path, p.role))
            self._last[path, p.role] = now
            if before is not None:
                size = float(before.float().norm())
                row[f"moved_{p.role}"] = _finite(float((now.float() - before.float()).norm()) / (size or 1.0))
        return row

    def _write_eval(self, number: int, seen: Pass) -> None:
        keep = ("entropy", "max", "first", "last", "ahead", "logit_std")
        for path, place, scores, extra in seen.sites:
            row = {"step": self.at, "layer": self._layer(path, place), "path": path, "eval_pass": number,
                   "where": extra["where"], "eval_kernel": extra["kernel"], "eval_dropout": extra["dropout"],
                   "eval_mode": not self.model.training, "eval_queries": scores.queries, "eval_keys": scores.keys,
                   "eval_samples": scores.samples}  # fmt: skip
            self._write(row | {f"eval_{name}": scores.per_head.get(name) for name in keep})

    def _layer(self, path: str, place: int) -> int:
        return self._layers.setdefault((path, place), len(self._layers))

    def _rows_of(self, path: str) -> list[dict[str, Any]]:
        return [r for r in self.rows if r.get("path") == path and "entropy" in r]

    def _where(self, path: str) -> str:
        return next((r["where"] for r in reversed(self._rows_of(path))), "")

    def _masked(self, path: str) -> float:
        return next((r["masked_rows"] for r in reversed(self._rows_of(path))), 0.0)

    def _write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        for sink in self._sinks:
            sink.write(row)


def _finite(x: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return float(f"{x:.6g}") if x is not None and math.isfinite(x) else None
