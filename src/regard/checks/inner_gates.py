"""Gates inside a larger module: a part that multiplies its own input is read as if it had been handed over alone.

A block around a gate (a convolution before it, a sum after it) hides that its output is an input times a gate. The part still is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.call import Call, Source
from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.evidence import read_evidence
from regard.checks.gate import FLAT, meant, read_gate, run_image
from regard.checks.layout import Layout
from regard.checks.plan import read_signature
from regard.checks.subject import Subject, clone, describe_error, invoke, untouched_globals

MOST = 4  # parts that are read
SIZES = (0.01, 1.0, 100.0)
BOUND = 2.0 + 1e-6  # no gate of images is larger; 1 / norm is, where the image is small


def inner_gates(case: Case) -> list[tuple[str, Case]]:
    """(path, case) of each class of part that is said to be a gate of channels or of pixels and multiplies its input by one.

    Left out are norms, which multiply by one over a size (a gate is bounded for small images too), and activations.
    """
    if "inner_gates" not in case.facts:
        case.facts["inner_gates"] = _read(case)
    return case.facts["inner_gates"]


def _read(case: Case) -> list[tuple[str, Case]]:
    source = case.call.sources[case.call.query]
    if (
        not case.subject.is_module
        or case.call.is_cross
        or len(source.grid) != 2
        or source.patch != 1
        or case.stochastic
    ):
        return []
    found: dict[type, tuple[str, Case]] = {}
    module = case.subject.instance(fresh=True)
    for path, image in _images(case):
        part = module.get_submodule(path)
        if type(part) in found or len(found) >= MOST:
            continue
        inner = _case(case, part, image)
        try:
            if inner is not None and meant(inner) is not None and _gates(inner):
                found[type(part)] = (path, inner)
        except NotExercised:
            continue
        except Exception as error:
            case.notes.append(f"{path}: not read as a gate ({describe_error(error)})")
    return list(found.values())


def _images(case: Case) -> list[tuple[str, Tensor]]:
    """Parts of the user's own classes that got one image and returned one of the same shape, with the image."""
    module = case.subject.instance(fresh=True)
    seen: dict[str, Tensor] = {}

    def keep(path: str) -> Any:
        def hook(part: nn.Module, args: Any, output: Any) -> None:
            alone = len(args) == 1 and isinstance(args[0], Tensor) and isinstance(output, Tensor)
            if alone and args[0].ndim == 4 and args[0].shape == output.shape:
                seen.setdefault(path, args[0])

        return hook

    for path, part in module.named_modules():
        if path and not type(part).__module__.startswith("torch."):
            part.register_forward_hook(keep(path))
    kwargs = {k: clone(v) for k, v in case.call.lay_out(case.sample(), case.subject.dtype).items()}
    with untouched_globals(case.seed), torch.no_grad():
        invoke(module, kwargs)
    return list(seen.items())


def _case(case: Case, part: nn.Module, image: Tensor) -> Case | None:
    """The part with the call that it got; None where the sizes do not say which axes are rows and columns."""
    grid = case.call.sources[case.call.query].grid
    batch = image.shape[0]
    fits = [a for a, at in (("BDHW", slice(2, 4)), ("BHWD", slice(1, 3))) if tuple(image.shape[at]) == grid]
    names = [p.name for p in inspect.signature(part.forward).parameters.values() if p.kind is not p.VAR_KEYWORD]
    if len(fits) != 1 or not names:
        return None
    subject = Subject(part, seed=case.seed)
    subject.dtype = case.subject.dtype
    layout = Layout(fits[0])
    width = image.shape[1 if fits[0] == "BDHW" else 3]
    call = Call({"x": Source(layout, batch, grid, width)}, {names[0]: "x"}, output_layout=layout)
    return Case(subject, call, read_signature(subject.forward), read_evidence(subject.pristine), seed=case.seed)


def _gates(inner: Case) -> bool:
    """Is it the input times something bounded, for small and for large images, that reads more than the number it multiplies?"""
    gate = read_gate(inner)
    x = gate.x
    if x.shape[1] < 2:
        return False
    moved = x.clone()
    moved[0, 0, 0, 0] *= 1.7
    change = (run_image(inner, moved) / moved - gate.values).abs()
    change[0, 0, 0, 0] = 0  # its own: an activation reads no more
    largest = [float((run_image(inner, x * size) / (x * size)).abs().max()) for size in SIZES]
    return float(change.max()) > FLAT and max(largest) <= BOUND


def first_wrong(case: Case, judge: Callable[[Case], Verdict | None]) -> Verdict | None:
    """What `judge` says of the gate that the module is, or the first error that it says of one inside it.

    Raises:
        NotExercised: it is no gate, and has none inside.
    """
    try:
        verdict = judge(case)
    except NotExercised:
        verdict = None
        if not inner_gates(case):
            raise
    if verdict is not None:
        return verdict
    for path, inner in inner_gates(case):
        try:
            verdict = judge(inner)
        except NotExercised:
            continue
        if verdict is not None and verdict.level == "error":
            return replace(verdict, message=f"{path} ({inner.evidence.name}): {verdict.message}", where=_line(inner))
    return None


def _line(inner: Case) -> str | None:
    """ "file:line" of the forward of a part."""
    try:
        return f"{inspect.getsourcefile(inner.subject.forward)}:{inspect.getsourcelines(inner.subject.forward)[1]}"
    except (OSError, TypeError):
        return None
