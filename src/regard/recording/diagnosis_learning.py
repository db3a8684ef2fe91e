"""Rules on what attention learns from: queries and keys without gradient, layers that are cut off, padding that is seen.

Every rule asks for several records: a false alarm costs more than a miss.
"""

from __future__ import annotations

from regard.recording.diagnosis import Cause, Symptom
from regard.recording.diagnosis_heads import LAST, SATURATED, names_of, symptom_of
from regard.recording.diagnosis_run import Layer, Run, known, mean

NO_GRADIENT = 1e-7  # of the values' gradient: below float32's resolution of it
SEEN = 0.99  # of the padding: a mask that hides part of it is another fault, and the checker's


def do_not_learn(run: Run) -> list[Symptom]:
    """Values learn and queries and keys do not; or no gradient reaches a layer at all."""
    cut, off = [], []
    for layer in run.layers:
        rows = layer.rows[1:] if len(layer.rows) > LAST - 1 else layer.rows  # zero-initialised gates open after a step
        roles, frozen = layer.typical("projections") or [], layer.typical("frozen") or []
        if len(rows) < 2 or not {"query", "key", "value"} <= set(roles) or (layer.typical("keys") or 0) < 2:
            continue
        grads = {role: [r.get(f"grad_{role}") for r in rows] for role in ("query", "key", "value")}
        learns = any(g for g in grads["value"] if g)
        if learns and "value" not in frozen:
            reason = _why_not(layer, rows, grads, frozen)
            if reason is not None:
                cut.append((layer, reason))
        elif not frozen and all(g == 0 for role in grads.values() for g in role):
            off.append((layer, None))
    return _cut(cut) + _off(off)


def _why_not(layer: Layer, rows, grads: dict[str, list], frozen: list[str]) -> Cause | None:
    if "query" in frozen and "key" in frozen:
        return Cause(
            "requires_grad is False for their parameters",
            "print([n for n, p in model.named_parameters() if not p.requires_grad])",
            "gradient-cut",
        )
    largest = max(g for g in grads["value"] if g)
    some = [g for role in ("query", "key") for g in grads[role] if g is not None]
    if all(g is None for role in ("query", "key") for g in grads[role]):
        return Cause(
            "the graph is cut: detach(), no_grad() or .data between them and the weights",
            "regard check MODEL --select ATT701",
            "gradient-cut",
        )
    if some and max(some) <= NO_GRADIENT * largest:
        one_hot = mean(layer.mean("max")) > SATURATED
        text = (
            "softmax is saturated, and its gradient is 0"
            if one_hot
            else "their gradient is exactly 0: both weights are zero, or the weights are not used"
        )
        return Cause(text, "regard check MODEL --select ATT7", "" if one_hot else "dead-qk")
    moved = {
        role: known(float("nan") if r.get(f"moved_{role}") is None else float(r[f"moved_{role}"]) for r in rows)
        for role in grads
    }
    if len(moved["value"]) >= 2 and min(moved["value"]) > 0 and max(moved["query"] + moved["key"]) == 0:
        return Cause(
            "they have gradients and are not in the optimizer",
            "count the parameters in optimizer.param_groups against model.parameters()",
        )
    return None


def _cut(cut: list[tuple[Layer, Cause]]) -> list[Symptom]:
    if not cut:
        return []
    layer, first = cut[0]
    causes = [
        first,
        Cause("they are frozen or left out on purpose", "nothing; random attention is then what is trained"),
    ]
    measured = {f"gradient of {role}": layer.typical(f"grad_{role}") for role in ("query", "key", "value")}
    title = f"Queries and keys do not learn while values do, in {names_of(cut)}"
    return [symptom_of("queries_and_keys_do_not_learn", title, layer, [la.number for la, _ in cut], causes,
                     {k: v for k, v in measured.items() if v is not None}, layer.rows[0])]  # fmt: skip


def _off(off: list[tuple[Layer, None]]) -> list[Symptom]:
    if not off:
        return []
    layer = off[0][0]
    causes = [
        Cause("a gate or an output projection in front is zero and does not move: both factors of a product start at 0, or one is frozen",
              "print the gate and its requires_grad; only one factor may start at zero", "gate-constant"),
        Cause("the attention's result is not used", "regard check MODEL --select ATT303", "output-unused"),
    ]  # fmt: skip
    title = f"The loss does not depend on the attention of {names_of(off)}: all its gradients are exactly 0"
    return [symptom_of("attention_not_trained", title, layer, [la.number for la, _ in off], causes, {}, layer.rows[0])]


def padding_seen(run: Run) -> list[Symptom]:
    """Real tokens attend to tokens that the author calls padding."""
    judged = [(int(r["step"]), r["padding"]) for r in run.steps if r.get("padding")]
    seen = [(step, p) for step, p in judged if p["pads_seen"] >= SEEN]
    if len(judged) < 2 or len(seen) < len(judged):
        return []
    step, row = seen[0]
    inverted = row["real_seen"] < 1 - SEEN
    first = (
        Cause(
            "the mask has the wrong polarity: padding is kept and text is hidden",
            "regard check MODEL --select ATT101",
            "mask-inverted",
        )
        if inverted
        else Cause(
            "the padding mask is not passed on, or is ignored on this path",
            "regard check MODEL --select ATT1",
            "mask-ignored",
        )
    )
    weak = Cause(
        "the mask constant is too weak to hide anything", "regard check MODEL --select ATT101", "mask-fill-weak"
    )
    measured = {"share of tokens that are padding": row["share"], "share of real tokens seen": row["real_seen"]}
    layer = next((la for la in run.layers if la.rows), None)
    where = layer.where if layer is not None else ""
    title = f"Real tokens attend to padding: {row['evidence']} marks it, and no attention layer hides it"
    return [Symptom("padding_seen", title, step, [first, weak], [], where, measured)]
