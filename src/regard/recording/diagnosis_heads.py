"""Rules on attention itself: saturated, uniform, equal heads, projections that do not learn, padding that is seen.

Every rule asks for several records or for every head of a layer: a false alarm costs more than a miss.
"""

from __future__ import annotations

import math

from regard.recording.diagnosis import Cause, Symptom
from regard.recording.diagnosis_run import Layer, Run, known, mean

FEW_KEYS = 8  # with fewer keys a largest weight near 1 means nothing
SATURATED = 0.9  # mean largest weight of every head: at initialisation right models have 2 / keys to 0.3
SATURATED_STD = (
    8.0  # within a row; e^8 = 3,000 to 1 between keys one deviation apart. Right initialisations have 0.01 to 2
)
COLLAPSED_STD = 30.0  # later in a run: trained heads with a sink reach 5 to 10
UNIFORM = 0.995  # of ln(keys), every head: 20 % spread of weights around their mean gives 0.995 at 50 keys
UNIFORM_STEPS = 100  # before this, a small initialisation is still allowed to be flat
FLAT_STD = 1e-4  # logits that are constant up to rounding
COLD = 0.7  # of 1 / sqrt(head_dim): a scale below it is smaller than the usual one
HOT = 1.5
SAME_SCALE = 0.02  # 2 % apart is the same factor; the nearest two named factors are further apart at any head_dim > 2
EQUAL = 0.999  # similarity of row-centred logits: equal up to 0.1 %; heads that share a bias but not weights stay below 0.99
LAST = 3  # records in a row in which a symptom must stand
NO_GRADIENT = 1e-7  # of the values' gradient: below float32's resolution of it
SEEN = 0.99


def named_scale(scale: float | None, head_dim: int | None, width: int | None) -> tuple[str, str] | None:
    """What a factor is that is not 1 / sqrt(head_dim): (text, kind); None where it is, or is none of the known ones."""
    if scale is None or not head_dim or scale <= 0:
        return None
    usual = head_dim**-0.5
    named = [
        (1.0, "no scale at all", "scale-missing"),
        (head_dim**-1.0, "1/head_dim in place of 1/sqrt(head_dim)", "scale-dk-not-sqrt"),
        (head_dim**0.5, "sqrt(head_dim), multiplied in place of divided", "scale-inverted"),
    ]
    if width and width != head_dim:
        named.append((width**-0.5, "1/sqrt(width of the model) in place of 1/sqrt(head_dim)", "scale-embed-dim"))
    if abs(scale / usual - 1) < SAME_SCALE:
        return None
    for factor, text, kind in named:
        if abs(scale / factor - 1) < SAME_SCALE:
            return f"the scores are multiplied by {scale:.4g}, {text}; 1/sqrt(head_dim) is {usual:.4g}", kind
    return None


def _scale_of(layer: Layer) -> tuple[float | None, int | None, int | None]:
    return layer.typical("scale"), layer.typical("head_dim"), layer.typical("width")


def saturated(run: Run) -> list[Symptom]:
    """Softmax is one-hot in every head of a layer, at the start of the run or at its end."""
    found = []
    for layer in run.layers:
        if not layer.rows or (layer.typical("keys") or 0) < FEW_KEYS:
            continue
        early, late = (
            _one_hot(layer, [0], SATURATED_STD),
            _one_hot(layer, list(range(-min(LAST, len(layer.rows)), 0)), COLLAPSED_STD),
        )
        if early or (late and len(layer.rows) >= LAST):
            found.append((layer, early))
    if not found:
        return []
    layer, early = found[0]
    scale, head_dim, width = _scale_of(layer)
    reason = named_scale(scale, head_dim, width)
    usual = head_dim**-0.5 if head_dim else None
    causes = []
    if reason and scale and usual and scale > HOT * usual:
        causes.append(Cause(reason[0], "regard check MODEL --select ATT401", reason[1]))
    if early:
        causes.append(
            Cause(
                "query and key weights are too large at the start",
                "print(q_proj.weight.std()); about 1/sqrt(width) is usual",
            )
        )
    else:
        causes.append(
            Cause("logits grew without bound (entropy collapse)", "a lower learning rate, or QK-norm; watch logit_std")
        )
    causes.append(
        Cause(
            "inputs are not normalised before the projections",
            "print(x.std()) at the attention's input; about 1 is usual",
        )
    )
    at = 0 if early else -1
    measured = {
        "largest weight": layer.mean("max")[at], "logit std": layer.mean("logit_std")[at], "scale": scale,
        "1/sqrt(head_dim)": usual,
    }  # fmt: skip
    title = f"Attention is saturated {'from the first step' if early else 'at the end'}: every query looks at one key, in {_names(found)}"
    return [
        _symptom("saturated_attention", title, layer, [la.number for la, _ in found], causes, measured, layer.rows[at])
    ]


def _one_hot(layer: Layer, at: list[int], std: float) -> bool:
    largest, spread = layer.heads("max"), layer.heads("logit_std")
    return all(
        largest[i] and spread[i] and min(largest[i], default=0) > SATURATED and min(spread[i], default=0) > std
        for i in at
    )


def uniform(run: Run) -> list[Symptom]:
    """Every key gets the same weight in every head, for the last records, and something measured says why."""
    found = []
    if run.last_step < UNIFORM_STEPS:
        return []
    for layer in run.layers:
        last = layer.heads("entropy")[-LAST:]
        if len(last) < LAST or (layer.typical("keys") or 0) < FEW_KEYS:
            continue
        if not all(heads and min(heads) >= UNIFORM for heads in last):
            continue
        reason = _why_uniform(layer)
        if reason is not None:
            found.append((layer, reason))
    if not found:
        return []
    layer, (first, measured) = found[0]
    causes = [first]
    if not first.kind.startswith("scale"):
        causes.append(Cause("the scale is far too small", "regard check MODEL --select ATT401", "scale-dk-not-sqrt"))
    causes += [
        Cause(
            "an option or a norm makes queries or keys constant",
            "regard check MODEL --select ATT405",
            "uniform-attention",
        ),
        Cause("queries and keys do not learn", "regard check MODEL --select ATT702", "dead-qk"),
    ]
    title = f"Attention is uniform: every key gets the same weight, in every head of {_names(found)}"
    measured = {"entropy / ln(keys)": layer.mean("entropy")[-1], "logit std": layer.mean("logit_std")[-1]} | measured
    return [
        _symptom("uniform_attention", title, layer, [la.number for la, _ in found], causes, measured, layer.rows[-LAST])
    ]


def _why_uniform(layer: Layer) -> tuple[Cause, dict] | None:
    """The measured reason; None where attention is flat and nothing is wrong with it: a task may need no attention here."""
    scale, head_dim, width = _scale_of(layer)
    usual = head_dim**-0.5 if head_dim else None
    if scale and usual and 0 < scale < COLD * usual:
        reason = named_scale(scale, head_dim, width) or (
            f"the scores are multiplied by {scale:.4g}, less than 1/sqrt(head_dim) ({usual:.4g})",
            "scale-missing",
        )
        return Cause(reason[0], "regard check MODEL --select ATT401", reason[1]), {
            "scale": scale,
            "1/sqrt(head_dim)": usual,
        }
    spread = known(layer.mean("logit_std")[-LAST:])
    if spread and max(spread) < FLAT_STD:
        return Cause("the logits are constant", "regard check MODEL --select ATT405", "uniform-attention"), {}
    return None


def equal_heads(run: Run) -> list[Symptom]:
    """Two or more heads compute the same logits, record after record."""
    found = []
    for layer in run.layers:
        last = layer.heads("similarity")[-LAST:]
        if len(last) < LAST or (layer.typical("keys") or 0) < FEW_KEYS or any(len(h) != len(last[0]) for h in last):
            continue
        twins = [h for h in range(len(last[0])) if all(heads[h] >= EQUAL for heads in last)]
        if len(twins) >= 2:
            found.append((layer, twins))
    if not found:
        return []
    layer, twins = found[0]
    causes = [
        Cause("the heads started from the same weights, and equal heads get equal gradients for ever",
              "regard check MODEL --select ATT703", "heads-collapsed"),
        Cause("one head's queries and keys were expanded or repeated to all", "regard check MODEL --select ATT311", "heads-not-independent"),
    ]  # fmt: skip
    title = f"{len(twins)} heads are equal to one another in {_names(found)}: heads {', '.join(map(str, twins[:8]))}"
    measured = {"similarity of logits": min(layer.heads("similarity")[-1][h] for h in twins)}
    return [_symptom("equal_heads", title, layer, [la.number for la, _ in found], causes, measured, layer.rows[-LAST])]


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
    title = f"Queries and keys do not learn while values do, in {_names(cut)}"
    return [_symptom("queries_and_keys_do_not_learn", title, layer, [la.number for la, _ in cut], causes,
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
    title = f"The loss does not depend on the attention of {_names(off)}: all its gradients are exactly 0"
    return [_symptom("attention_not_trained", title, layer, [la.number for la, _ in off], causes, {}, layer.rows[0])]


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


def _names(found: list) -> str:
    names = [layer.name for layer, _ in found]
    return names[0] if len(names) == 1 else f"{len(names)} layers, the first of them {names[0]}"


def _symptom(name, title, layer: Layer, layers, causes, measured, row) -> Symptom:
    measured = {k: v for k, v in measured.items() if v is not None and not (isinstance(v, float) and math.isnan(v))}
    return Symptom(name, title, int(row["step"]), causes, layers, layer.where, measured)
