"""Rules that compare: evaluation with training, validation with training, with and without attention, one run with another."""

from __future__ import annotations

from itertools import pairwise

from regard.recording.diagnosis import Cause, Symptom
from regard.recording.diagnosis_run import Layer, Run, known, mean

BEHIND = 2.0  # validation loss over training loss; ordinary over-fitting passes it late, a leak at once
BEHIND_BY = 0.5  # and at least so much more, in the loss's own unit: 0.02 against 0.01 is no symptom
NO_FUTURE = 1e-6  # mean weight on later keys in a causal layer
SOME_FUTURE = 0.01
WORSE = 1.1  # than the baseline: 10 % is more than the noise between runs
DIFFERENT = 1e-3  # between two runs of the same weights on the same batch: float32 backends differ by 1e-5


def inference_differs(run: Run) -> list[Symptom]:
    """Evaluation runs something else than training did: dropout, a cache that is not emptied, another mask."""
    found = []
    for rule in (_dropout_alive, _stale_cache, _other_mask):
        hits = [(layer, cause) for layer in run.layers if (cause := rule(layer))]
        if hits:
            layer, (what, cause, measured) = hits[0]
            name = layer.name if len(hits) == 1 else f"{len(hits)} layers, the first of them {layer.name}"
            found.append(
                Symptom("inference_differs", f"{what}, in {name}", int(layer.evals[0]["step"]), [*cause],
                        [la.number for la, _ in hits], layer.where, measured)
            )  # fmt: skip
    return found


def _dropout_alive(layer: Layer):
    alive = [r for r in layer.evals if r.get("eval_dropout")]
    if not alive:
        return None
    if any(r.get("eval_mode") for r in alive):
        cause = Cause("a dropout that does not ask for self.training, or a part that eval() does not reach",
                      "regard check MODEL --select ATT501", "dropout-in-eval")  # fmt: skip
        return "Dropout is alive in evaluation", [cause, Cause("Monte Carlo dropout, on purpose", "nothing")], {}
    cause = Cause("model.eval() was not called before the validation", "print(model.training) inside it")
    return "The validation ran in training mode, with dropout", [cause], {}


def _stale_cache(layer: Layer):
    if not layer.rows or any(r.get("keys") != r.get("queries") for r in layer.rows):
        return None  # another stream, or a memory that is there in training too
    for a, b in pairwise(layer.evals):
        follows = b["eval_pass"] == a["eval_pass"] + 1
        T, extra, later = a["eval_queries"], a["eval_keys"] - a["eval_queries"], b["eval_keys"] - b["eval_queries"]
        if follows and T > 1 and b["eval_queries"] > 1 and later - extra == T:
            causes = [
                Cause("keys and values of the batch before stay in the cache; nothing empties it between sequences",
                      "regard check MODEL --select ATT204", "cache-stale"),
                Cause("the passes are chunks of one sequence, on purpose", "nothing"),
            ]  # fmt: skip
            measured = {"keys in two passes": [a["eval_keys"], b["eval_keys"]], "queries": T}
            return "Evaluation attends to the batch before: the keys grow from pass to pass", causes, measured
    return None


def _other_mask(layer: Layer):
    square = [r for r in layer.evals if r["eval_queries"] == r["eval_keys"] > 1]
    train = known(x for r in layer.rows for x in [mean([v for v in r.get("ahead") or [] if v is not None])])
    there = known(mean([v for v in r.get("eval_ahead") or [] if v is not None]) for r in square)
    if not train or not there or any(r.get("keys") != r.get("queries") for r in layer.rows):
        return None
    causes = [
        Cause(
            "the causal mask is made on one path only",
            "regard check MODEL --select ATT201 --select ATT503",
            "causal-missing",
        )
    ]
    if max(train) < NO_FUTURE and min(there) > SOME_FUTURE:
        return "Later tokens are seen in evaluation and not in training", causes, {"weight on later keys": min(there)}
    if min(train) > SOME_FUTURE and max(there) < NO_FUTURE:
        return "Later tokens are seen in training and not in evaluation", causes, {"weight on later keys": min(train)}
    return None


def validation_behind(run: Run) -> list[Symptom]:
    """The validation loss is far above the training loss, twice in a row."""
    if len(run.validations) < 2 or len(run.losses) < 2:
        return []
    pairs = [(step, value, _train_at(run, step)) for step, value in run.validations]
    if not all(value > BEHIND * train and value - train > BEHIND_BY for _, value, train in pairs[-2:]):
        return []
    best = min(range(len(pairs)), key=lambda i: pairs[i][1])
    over = Cause(
        "over-fitting: the validation loss has passed its best",
        "more data, more dropout, a smaller model, or stop earlier",
    )
    leaks = [
        Cause(
            "training sees what it should predict: a future or label leak",
            "regard check MODEL --select ATT201",
            "causal-missing",
        ),
        Cause(
            "padding or batch neighbours change the result",
            "regard check MODEL --select ATT101 --select ATT301",
            "padding-leak-nonattention",
        ),
        Cause("train and eval take different paths", "regard check MODEL --select ATT5", "path-mismatch"),
    ]
    rising = 0 < best < len(pairs) - 1
    causes = [over, *leaks] if rising else [*leaks, over]
    step, value, train = pairs[-1]
    measured = {"validation loss": value, "training loss": train, "best at step": pairs[best][0]}
    title = "Validation is far behind training"
    return [Symptom("validation_behind", title, step, causes, measured=measured)]


def _train_at(run: Run, step: int) -> float:
    before = [v for s, v in run.losses if s <= step]
    return mean(before[-2:]) if before else run.losses[0][1]


def attention_hurts(run: Run) -> list[Symptom]:
    """With attention the model is worse than the baseline that it was added to."""
    if run.baseline is None or not run.validations:
        return []
    best = min(value for _, value in run.validations)
    if best <= WORSE * run.baseline:
        return []
    causes = [
        Cause("the new attention does not start as the identity, and wrecks what the layers behind it know",
              "start its output projection, gate or gamma at zero: regard.insert does, and proves it"),
        Cause("the gate is closed, frozen or constant: see the gradients of these layers", "regard check MODEL --select ATT9", "gate-constant"),
        Cause("the rest of the model was frozen, or its learning rate is too small to follow",
              "print([n for n, p in model.named_parameters() if not p.requires_grad])"),
    ]  # fmt: skip
    measured = {"baseline": run.baseline, "best validation loss": best}
    title = "With attention the model is worse than without"
    return [Symptom("attention_hurts", title, run.validations[0][0], causes, measured=measured)]


def runs_disagree(run: Run, other: Run) -> list[Symptom]:
    """Two runs that should be equal are not; from the first step: the forward pass, later: what comes after it."""
    theirs = dict(other.losses)
    common = [(step, mine, theirs[step]) for step, mine in run.losses if step in theirs]
    apart = [(s, a, b) for s, a, b in common if abs(a - b) > DIFFERENT * max(abs(a), abs(b))]
    if not apart:
        return []
    step, mine, their = apart[0]
    measured = {"loss here": mine, "loss there": their}
    if step > common[0][0]:
        causes = [
            Cause(
                "the update differs: optimizer, its epsilon and weight decay, clipping, loss reduction",
                "compare all gradients after one backward",
            ),
            Cause("dropout draws different numbers", "compare with dropout 0 on both sides"),
            Cause("the batches come in another order", "print the first ids of each batch"),
        ]
        return [
            Symptom(
                "runs_disagree", f"The runs part at step {step}; before it they agree", step, causes, measured=measured
            )
        ]
    layer, score = _first_difference(run, other)
    causes = [
        Cause(
            "weights in another layout: (in, out) for (out, in), heads interleaved in qkv, rotary pairs",
            "regard align A B",
            "head-split-order",
        ),
        Cause("another mask polarity or alignment", "regard check MODEL --select ATT1", "mask-inverted"),
        Cause(
            "another scale, epsilon of the norms, or activation (exact or tanh GELU)",
            "regard check MODEL --select ATT401",
            "scale-missing",
        ),
    ]
    at = f"; the first layer that differs is {layer.name}, in {score}" if layer is not None else ""
    return [Symptom("runs_disagree", f"The two runs differ from the first common step on{at}", step, causes,
                    [] if layer is None else [layer.number], "" if layer is None else layer.where, measured)]  # fmt: skip


def _first_difference(run: Run, other: Run) -> tuple[Layer | None, str]:
    for mine, their in zip(run.layers, other.layers):
        for score in ("logit_std", "entropy", "max"):
            a, b = mine.mean(score)[:1], their.mean(score)[:1]
            if a and b and abs(a[0] - b[0]) > DIFFERENT * max(abs(a[0]), abs(b[0])):
                return mine, score
    return None, ""
