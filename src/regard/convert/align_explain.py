"""Why two steps part: in the step itself, or in what happened between it and the step before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.convert.align_attention import explain_attention
from regard.convert.align_record import Recording, Step
from regard.convert.align_weights import Cause, compare, matrix_of, permutation_of, permuted, ratio_of, same, to_double

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "softplus": F.softplus,
    "relu squared": lambda x: F.relu(x).square(),
}
EPSILONS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3, 1e-2)


def explain_step(reference: Step, candidate: Step) -> Cause:
    """Both got the same input and gave another output."""
    cause: Cause | None = None
    if reference.kind == "attention":
        cause = explain_attention(reference, candidate)
    elif reference.kind == "linear":
        r, c = matrix_of(reference.module), matrix_of(candidate.module)
        cause = compare(r, c, reference.name) if r is not None and c is not None else None
    elif reference.kind == "norm":
        cause = _norm(reference, candidate)
    elif reference.kind == "activation":
        cause = _functions(reference.inputs[0], reference.output, candidate.output)
    return cause or _outputs(reference.output, candidate.output) or Cause("unknown", "nothing that we try explains it")


def explain_input(reference: Step, candidate: Step, here: Recording, there: Recording) -> Cause:
    """The inputs differ already, and all steps before agree: something between them that is no module."""
    r, c = reference.inputs[0], candidate.inputs[0]
    if r.shape != c.shape:
        if c.ndim == r.ndim == 3 and r.transpose(0, 1).shape == c.shape and same(r.transpose(0, 1), c):
            return Cause("transposition", "the candidate takes batch and length in the other order")
        return Cause("shape", f"the reference is given {tuple(r.shape)} and the candidate {tuple(c.shape)}")
    cause = (
        _residual(r, c, here, there) or _between(r, c, reference, here) or _outputs(r, c) or _order(r, c, here, there)
    )
    return cause or Cause(
        "unknown", "something between the last step that agrees and this one is another; no module shows it"
    )


def _norm(reference: Step, candidate: Step) -> Cause | None:
    for name, other in (("weight", "gamma"), ("bias", "beta")):
        r, c = (_parameter(step.module, name, other) for step in (reference, candidate))
        if r is not None and c is not None and not same(r, c):
            return Cause(
                "weights", f"the {name} of the norm {reference.name} differs by {float((r - c).abs().amax()):.2g}"
            )
    scale, shift = (_parameter(reference.module, *names) for names in (("weight", "gamma"), ("bias", "beta")))
    x = reference.inputs[0]

    def normed(epsilon: float, centred: bool) -> Tensor:
        y = x - x.mean(-1, keepdim=True) if centred else x
        y = y / (y.square().mean(-1, keepdim=True) + epsilon).sqrt()
        y = y if scale is None else y * scale
        return y if shift is None else y + shift

    tried = [(e, centred, normed(e, centred)) for centred in (True, False) for e in EPSILONS]
    found = [min(tried, key=lambda t: float((t[2] - s.output).abs().amax())) for s in (reference, candidate)]
    if found[0][1] != found[1][1]:
        words = ["subtracts the mean" if f[1] else "does not subtract the mean" for f in found]
        return Cause("norm", f"the norm of the reference {words[0]}, the candidate's {words[1]}")
    if found[0][0] != found[1][0]:
        return Cause(
            "epsilon", f"the norm has eps {found[0][0]:g} in the reference and {found[1][0]:g} here; set it to the same"
        )
    return None


def _parameter(module: Any, *names: str) -> Tensor | None:
    for name in names:
        value = getattr(module, name, None)
        if value is not None:
            return to_double(getattr(value, "value", value) if not isinstance(value, Tensor) else value)
    return None


def _functions(x: Tensor, r: Tensor, c: Tensor) -> Cause | None:
    """Two functions of the same numbers, by name."""
    if x.shape != r.shape or x.shape != c.shape:
        return None
    values = {name: function(x) for name, function in FUNCTIONS.items()}
    here, there = (next((name for name, y in values.items() if _near(y, out)), None) for out in (r, c))
    if here is None or there is None or here == there:
        return None
    return Cause("activation", f"the activation is {here} in the reference and {there} here")


def _near(a: Tensor, b: Tensor) -> bool:
    """As `same`, for numbers that went through a float32 model."""
    return bool((a - b).abs().amax() <= 2e-6 * max(1.0, float(a.abs().amax())))


def _between(r: Tensor, c: Tensor, reference: Step, here: Recording) -> Cause | None:
    """A function of what the step before gave."""
    before = [step.output for step in here.steps if step is not reference and step.output.shape == r.shape]
    for x in reversed(before):
        cause = _functions(x, r, c)
        if cause is not None:
            return cause
    return None


def _residual(r: Tensor, c: Tensor, here: Recording, there: Recording) -> Cause | None:
    """Whether one of the two has an earlier tensor added that the other has not."""
    tensors = [("the input", x) for x in here.inputs] + [(f"the output of {s.name}", s.output) for s in here.steps]
    tensors += [("its input", s.inputs[0]) for s in here.steps if s.inputs]
    for name, x in tensors:
        if x.shape != r.shape or not x.dtype.is_floating_point:
            continue
        for gap, who in ((r - c, "lacks"), (c - r, "adds")):
            if float(x.abs().amax()) > 1e-6 and _near(gap, x):
                return Cause("residual", f"the candidate {who} {name} (a residual path)")
    return None


def _order(r: Tensor, c: Tensor, here: Recording, there: Recording) -> Cause | None:
    """The two are outputs of other steps: the modules come in another order."""
    sources = []
    for x, recording in ((r, here), (c, there)):
        named = [("the input", y) for y in recording.inputs] + [(s.name, s.output) for s in recording.steps]
        sources.append(next((name for name, y in named if y.shape == x.shape and _near(y, x)), None))
    if sources[0] is None and sources[1] is None:
        gap = c - r
        constant = r.ndim == 3 and len(r) > 1 and same(gap, gap[:1].expand_as(gap))
        return Cause("position", "the same is added to every sample: a position?") if constant else None
    words = [name or "something that no module gives" for name in sources]
    return Cause(
        "order of modules", f"the reference is given what {words[0]} gives, the candidate what {words[1]} gives"
    )


def _outputs(r: Tensor, c: Tensor) -> Cause | None:
    """What the numbers alone say: a factor, other axes, channels in another order."""
    if r.shape == c.shape:
        ratio = ratio_of(r, c)
        if ratio is not None:
            return Cause("scale", f"the candidate is {ratio:.6g} times the reference")
        if r.ndim == 3 and r.shape[0] == r.shape[1] and same(r.transpose(0, 1), c):
            return Cause("transposition", "batch and length are exchanged")
    for a, b in ((0, 1), (1, 2)):
        if r.ndim == c.ndim == 3 and r.shape != c.shape and same(r.transpose(a, b), c):
            return Cause("transposition", f"axes {a} and {b} are exchanged")
    if r.shape == c.shape and r.ndim >= 2:
        order = permutation_of(r.flatten(0, -2).T, c.flatten(0, -2).T, 0)
        if order is not None and order != list(range(len(order))):
            return permuted(order, "the channels of the output")
    return None
