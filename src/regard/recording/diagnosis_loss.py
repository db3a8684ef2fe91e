"""Rules on the loss: not finite, and stuck from the first step."""

from __future__ import annotations

from statistics import stdev

from regard.recording.diagnosis import Cause, Symptom
from regard.recording.diagnosis_run import Run, known, mean

STUCK_STEPS = 100  # shorter runs have not had the time: warm-up alone takes this long
STUCK_POINTS = 5  # recorded means of the loss; fewer tell nothing about noise
STUCK_SHARE = 0.01  # of the first loss: the last third of the run is not even 1 % better than the first point
STUCK_ALONE = 200  # steps before a flat loss is reported with no other symptom beside it
STUCK_ALONE_SHARE = 0.001


def not_finite(run: Run) -> list[Symptom]:
    """The loss, an activation or a gradient is NaN or infinite."""
    broken = [(int(r["step"]), r["nonfinite"]) for r in run.steps if r.get("nonfinite")]
    bad = [int(r["loss_nonfinite_at"]) for r in run.steps if r.get("loss_nonfinite_at") is not None]
    if not bad and not any(p["what"] == "gradient" for _, p in broken):
        return []  # values that never reach the loss are noted, not reported: rows of padding may be anything
    first = min(bad) if bad else broken[0][0]
    step, place = next(((s, p) for s, p in broken if p.get("parameters_finite", True)), (None, None))
    if place is None:
        return [_lost(run, first, [p for _, p in broken])]
    where, path = str(place.get("where", "")), place.get("path") or "the model"
    measured: dict[str, float] = {"first step with a non-finite loss": first} if bad else {}
    masked = float(place.get("masked_rows") or 0.0)
    if place["what"] == "input":
        title = f"The loss is not finite: the batch of step {step} has NaN or infinite values"
        causes = [Cause("the data is broken", "print(batch.isfinite().all()) before the model")]
    elif place["what"] == "gradient":
        title = f"Gradients are not finite at step {step} although the forward pass is: {place.get('role')} of {path}"
        causes = _gradient_causes(masked)
    elif place["what"] == "attention":
        title = f"The loss is not finite: the first such value arose in the attention of {path} at step {step}"
        causes = _attention_causes(masked)
    else:
        title = f"The loss is not finite: the first such value arose in {path} ({place.get('module')}) at step {step}"
        causes = [
            Cause(
                "values grew past the range of the dtype",
                "a lower learning rate, gradient clipping, bfloat16 for float16",
            ),
            Cause("a division by zero, log(0) or sqrt(0) in this module", "torch.autograd.set_detect_anomaly(True)"),
        ]
    if masked:
        measured["share of fully masked rows"] = masked
    layers = [layer.number for layer in run.layers if layer.path == place.get("path")]
    return [Symptom("loss_not_finite", title, min(first, int(step or first)), causes, layers, where, measured)]


def harmless(run: Run) -> list[str]:
    """A sentence where values are not finite and the loss is."""
    broken = [(int(r["step"]), r["nonfinite"]) for r in run.steps if r.get("nonfinite")]
    if not broken or not_finite(run):
        return []
    step, place = broken[0]
    return [
        f"values in {place['path'] or 'the model'} are not finite at step {step} ({place['where']}); the loss is, so far"
    ]


def _attention_causes(masked: float) -> list[Cause]:
    row = Cause(
        "a query whose keys are all masked: softmax over -inf only is 0 / 0",
        "regard check MODEL --select ATT601",
        "fully-masked-nan",
    )
    over = Cause(
        "logits overflow, with no maximum subtracted or in half precision",
        "regard check MODEL --select ATT604",
        "logit-overflow",
    )
    half = Cause(
        "a mask constant that half precision cannot hold", "regard check MODEL --select ATT603", "half-overflow-mask"
    )
    return [row, half, over] if masked else [over, half, row]


def _gradient_causes(masked: float) -> list[Cause]:
    row = Cause(
        "a fully masked row that is repaired after the softmax: the backward pass still divides 0 by 0",
        "regard check MODEL --select ATT602", "fully-masked-nan-backward",
    )  # fmt: skip
    over = Cause(
        "the loss scale or the gradients overflow", "clip gradients; lower the initial scale of the GradScaler"
    )
    return [row, over] if masked else [over, row]


def _lost(run: Run, first: int, broken: list) -> Symptom:
    """The loss was not finite at a step that was not observed, and the update has carried it into the parameters."""
    masked = max((float(r.get("masked_rows") or 0) for layer in run.layers for r in layer.rows), default=0.0)
    causes = _attention_causes(masked) if masked else [
        Cause("the update of an earlier step was not finite or far too large",
              "a lower learning rate, gradient clipping, and warm-up"),
        *_attention_causes(0.0)[1:],
    ]  # fmt: skip
    again = f"run again with the same seed and regard.watch(model, every=1) up to step {first}: it names the line"
    causes = [Cause(c.text, f"{c.check}; or {again}" if at == 0 else c.check, c.kind) for at, c in enumerate(causes)]
    measured = {"share of fully masked rows": masked} if masked else {}
    what = "; by the next record the parameters are NaN too, which hides where it began" if broken else ""
    return Symptom(
        "loss_not_finite", f"The loss is not finite from step {first} on{what}", first, causes, measured=measured
    )


def stuck(run: Run, found: list[Symptom]) -> list[Symptom]:
    """The loss has not moved since the first step. Beside a symptom that explains it a smaller run is enough."""
    values = [v for _, v in run.losses]
    if len(values) < STUCK_POINTS or run.last_step < STUCK_STEPS or any(s.name == "loss_not_finite" for s in found):
        return []
    first, late = mean(values[:2]), values[-max(2, len(values) // 3) :]  # the first point is one batch only
    noise = stdev(values)
    gain = first - mean(late)
    explained = [
        s for s in found if s.name in ("saturated_attention", "queries_and_keys_do_not_learn", "attention_not_trained")
    ]
    still = _still(run)
    alone = run.last_step >= STUCK_ALONE and abs(gain) < STUCK_ALONE_SHARE * abs(first)
    if not (gain < STUCK_SHARE * abs(first) and gain <= 2 * noise and (explained or still or alone)):
        return []
    causes = [
        Cause(f"see above: {s.title[0].lower() + s.title[1:]}", s.causes[0].check, s.causes[0].kind)
        for s in explained[:2]
    ]
    if still:
        causes.append(Cause("the parameters do not move: a learning rate of 0, or an optimizer with other parameters",
                            "print(optimizer); compare a weight before and after optimizer.step()"))  # fmt: skip
    causes += [
        Cause(
            "queries see the wrong keys: a mask of the wrong polarity",
            "regard check MODEL --select ATT1",
            "mask-inverted",
        ),
        Cause(
            "the loss does not depend on the model's output, or had converged before this run",
            "overfit one batch: its loss must fall",
        ),
    ]
    measured = {"first loss": first, "late loss": mean(late), "steps": run.last_step + 1}
    return [Symptom("loss_stuck", f"The loss has not moved in {run.last_step + 1} steps", 0, causes, measured=measured)]


def _still(run: Run) -> bool:
    """Whether the projections were compared from record to record, and never moved."""
    moved = [v for layer in run.layers for role in ("query", "key", "value") for v in layer.number_at(f"moved_{role}")]
    return bool(known(moved)) and max(known(moved)) == 0
