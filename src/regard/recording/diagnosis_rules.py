"""Rows in, diagnosis out: every rule is tried, the gravest symptoms come first, and what explains another stands before it."""

from __future__ import annotations

from collections.abc import Iterable

from regard.recording import diagnosis_heads, diagnosis_learning, diagnosis_loss, diagnosis_modes, diagnosis_resources
from regard.recording.diagnosis import Diagnosis, Symptom
from regard.recording.diagnosis_run import Row, Run, run_of

RULES = (
    diagnosis_loss.not_finite,
    diagnosis_modes.inference_differs,
    diagnosis_heads.saturated,
    diagnosis_learning.do_not_learn,
    diagnosis_learning.padding_seen,
    diagnosis_heads.uniform,
    diagnosis_heads.equal_heads,
    diagnosis_modes.validation_behind,
    diagnosis_modes.attention_hurts,
    diagnosis_resources.memory,
)


def diagnose(rows: Iterable[Row], against: Iterable[Row] | None = None) -> Diagnosis:
    """The diagnosis of a run's rows; `against` are those of a run that should be equal (another framework, another backend)."""
    run = run_of(rows)
    found: list[Symptom] = []
    for rule in RULES:
        found += rule(run)
    found += diagnosis_loss.stuck(run, found)
    if against is not None:
        found += diagnosis_modes.runs_disagree(run, run_of(against))
    return Diagnosis(found, run.records, run.last_step + 1, len(run.layers), _notes(run))


def _notes(run: Run) -> list[str]:
    notes = []
    if not run.layers:
        notes.append("no attention was seen in the recorded forward passes, so only losses and memory were judged")
    missing = [layer.name for layer in run.layers if layer.rows and not layer.typical("projections")]
    if missing:
        notes.append(
            f"no query, key and value projections were recognised by name in {', '.join(missing[:3])}"
            f"{' and others' if len(missing) > 3 else ''}: their gradients were not judged"
        )
    notes += diagnosis_loss.harmless(run)
    texts = sorted({t for r in run.steps for t in r.get("not_understood") or ()})
    return notes + [f"seen and not understood: {text}" for text in texts[:3]]
