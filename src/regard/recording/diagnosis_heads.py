"""Rules on the weights of attention: saturated, uniform, equal heads.

Every rule asks for several records or for every head of a layer: a false alarm costs more than a miss.
"""

from __future__ import annotations

import math

from regard.recording.diagnosis import Cause, Symptom
from regard.recording.diagnosis_run import Layer, Run, known

FEW_KEYS = 8  # with fewer keys a largest weight near 1 means nothing
SATURATED = 0.9  # mean largest weight of every head: at initialisation right models have 2 / keys to 0.3
SATURATED_STD = (
    8.0  # within a row; e^8 = 3,000 to 1 between keys one deviation apart. Right initialisations have 0.01 to 2
)
COLLAPSED_STD = 30.0  # later in a run: trained heads with a sink reach 5 to 10
UNIFORM = 0.995  # of ln(keys), every head: 20 % spread of weights around their mean gives 0.995 at 50 keys
UNIFORM_NAMED = 0.99  # where the scale is one of the known wrong ones: right initialisations of any width have 0.98
UNIFORM_STEPS = 100  # before this, a small initialisation is still allowed to be flat
FLAT_STD = 1e-4  # logits that are constant up to rounding
COLD = 0.7  # of 1 / sqrt(head_dim): a scale below it is smaller than the usual one
HOT = 1.5
SAME_SCALE = 0.02  # 2 % apart is the same factor; the nearest two named factors are further apart at any head_dim > 2
EQUAL = 0.999  # similarity of row-centred logits: equal up to 0.1 %; heads that share a bias but not weights stay below 0.99
LAST = 3  # records in a row in which a symptom must stand


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
    title = f"Attention is saturated {'from the first step' if early else 'at the end'}: every query looks at one key, in {names_of(found)}"
    return [
        symptom_of(
            "saturated_attention", title, layer, [la.number for la, _ in found], causes, measured, layer.rows[at]
        )
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
        level = UNIFORM_NAMED if named_scale(*_scale_of(layer)) else UNIFORM
        if not all(heads and min(heads) >= level for heads in last):
            continue
        reason = _why_uniform(layer)
        if reason is not None:
            found.append((layer, reason))
    if not found:
        return []
    layer, (first, measured) = found[0]
    causes = [first]
    if first.kind == "scale-dk-not-sqrt":
        causes.append(
            Cause(
                "mu-P, which divides by head_dim on purpose",
                "regard check MODEL with the scale declared (regard.Design)",
            )
        )
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
    title = f"Attention is uniform: every key gets the same weight, in every head of {names_of(found)}"
    measured = {"entropy / ln(keys)": layer.mean("entropy")[-1], "logit std": layer.mean("logit_std")[-1]} | measured
    return [
        symptom_of(
            "uniform_attention", title, layer, [la.number for la, _ in found], causes, measured, layer.rows[-LAST]
        )
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
    title = f"{len(twins)} heads are equal to one another in {names_of(found)}: heads {', '.join(map(str, twins[:8]))}"
    measured = {"similarity of logits": min(layer.heads("similarity")[-1][h] for h in twins)}
    return [
        symptom_of("equal_heads", title, layer, [la.number for la, _ in found], causes, measured, layer.rows[-LAST])
    ]


def names_of(found: list) -> str:
    names = [layer.name for layer, _ in found]
    return names[0] if len(names) == 1 else f"{len(names)} layers, the first of them {names[0]}"


def symptom_of(name, title, layer: Layer, layers, causes, measured, row) -> Symptom:
    measured = {k: v for k, v in measured.items() if v is not None and not (isinstance(v, float) and math.isnan(v))}
    return Symptom(name, title, int(row["step"]), causes, layers, layer.where, measured)
