"""From an object to a case: built, called, settled, with masks and cache found. Every later step works on the result."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Mapping
from typing import Any

from regard.checks import settle
from regard.checks.build import builds, dropout_rate, parameter_count
from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.declared import declared_call
from regard.checks.design import Design
from regard.checks.documents import document_masks
from regard.checks.evidence import read_evidence
from regard.checks.infer import NotCallable, infer_call, infer_cross
from regard.checks.infer_cache import infer_cache
from regard.checks.infer_mask import infer_masks
from regard.checks.infer_steps import infer_step
from regard.checks.mask_pairs import pair_masks
from regard.checks.patches import settle_patches
from regard.checks.plan import read_signature
from regard.checks.subject import Subject, describe_error

BUILDS = 16  # instances tried until one can be called
SECONDS = 12.0  # of the processor, after which no other is begun
SHORT, LONG = 2.0, 8.0  # for finding a call of one instance; the likeliest gets a second chance
MANY = 2_000_000  # parameters: a call takes long


def prepare(obj: Any, *, design: Design | None = None, init: Mapping[str, Any] | None = None, seed: int = 0) -> Case:
    """Build and call the object in every way that the rules need.

    Raises:
        TargetError: it cannot be built.
        NotCallable: no call runs.
    """
    case = _built_and_called(obj, design, dict(init or {}), seed)
    if inspect.isfunction(obj) and case.subject.pristine is not obj:
        case.facts["factory"] = obj
    case.call = call = settle.fitted_vocabularies(case.subject, case.call)
    subject = case.subject
    settle.settle_dtype(subject, call)
    settle.settle_state(subject, call)
    try:
        _settle(case)
    except Exception as error:
        raise NotCallable(f"one call ran, and others like it do not: {describe_error(error)}") from error
    return case


def _built_and_called(obj: Any, design: Design | None, init: dict[str, Any], seed: int) -> Case:
    """The first instance for which a call runs: a class may be built with sizes that its forward refuses.

    Instances with many parameters wait until smaller ones have been tried.
    """
    start, refused, later = time.process_time(), [], []
    for made, arguments in itertools.islice(builds(obj, init, seed=seed), BUILDS):
        if later and time.process_time() - start > SECONDS:
            break
        large = parameter_count(made) > MANY
        case = None if large else _called(made, arguments, design, seed, refused, SHORT)
        if case is not None:
            return case
        later.append((made, arguments))
    for made, arguments in later[:1]:
        case = _called(made, arguments, design, seed, refused, LONG)
        if case is not None:
            return case
    raise max(refused, key=lambda error: error.line)


def _called(
    made: Any, arguments: dict[str, Any], design: Design | None, seed: int, refused: list[NotCallable], seconds: float
) -> Case | None:
    subject = Subject(made, seed=seed)
    signature = read_signature(subject.forward)
    evidence = read_evidence(subject.pristine)
    said = {n: evidence.polarity(n)[0] for n in signature.masks}
    signature.hiding = {n for n in signature.masks if (said[n] or ("drop" if n in signature.hiding else "")) == "drop"}
    design = design or Design.from_comment(evidence.source) or Design()
    try:
        call = declared_call(subject, signature, design) or infer_call(subject, signature, seconds)
    except NotCallable as error:
        refused.append(error)
        return None
    except Exception as error:  # a fault of the search is told as one, and the other targets go on
        refused.append(NotCallable(f"the search for a call broke off: {describe_error(error)}"))
        return None
    case = Case(subject, call, signature, evidence, design, seed=seed)
    case.facts["init"] = arguments
    return case


def _settle(case: Case) -> None:
    settle.settle_randomness(case)
    settle.settle_batch_axis(case)
    settle_patches(case)
    settle.settle_freedom(case)
    case.dropout = case.design.dropout if case.design.dropout is not None else dropout_rate(case.subject.pristine)
    case.cross = _context_that_counts(case, infer_cross(case.subject, case.signature, case.call))
    case.masks = [] if case.stochastic and not _repeatable(case) else infer_masks(case)
    case.masks = pair_masks(case) + document_masks(case)
    try:
        case.cache = infer_cache(case) or infer_step(case)
    except Exception as error:
        case.notes.append(f"cache: not understood ({describe_error(error)})")
    unused = [n for n in case.signature.masks if n not in {m.parameter for m in case.masks}]
    case.notes += [
        f"mask argument {n} was not exercised" for n in unused if not any(note.startswith(n) for note in case.notes)
    ]


def _context_that_counts(case: Case, call: Call | None) -> Call | None:
    """An optional context that changes nothing belongs to another configuration of a whole model; elsewhere rules speak of it."""
    source = case.call.sources[case.call.query]
    if call is None or source.vocabulary is None:
        return call
    a = case.sample(call=call)
    b = {**a, call.keys: case.sample(1, call=call)[call.keys]}
    if case.difference(case.run(a, call=call), case.run(b, call=call)) > case.tolerance:
        return call
    case.notes.append(
        f"the context ({', '.join(p for p, s in call.arguments.items() if s == call.keys)}) has no effect in this configuration and was not exercised"
    )
    return None


def _repeatable(case: Case) -> bool:
    batch = case.sample()
    return case.difference(case.run(batch), case.run(batch)) <= case.tolerance


def inferred(case: Case) -> dict[str, Any]:
    """What the report says of how the target was built and called."""
    out: dict[str, Any] = {
        "init": {
            k: v if isinstance(v, (int, float, str, bool, type(None))) else repr(v)[:60]
            for k, v in case.facts.get("init", {}).items()
        }
    }
    out |= case.call.describe()
    out["dtype"] = str(case.subject.dtype).removeprefix("torch.")
    out["causal"] = case.facts.get("causal")
    out["masks"] = [m.describe() | {"works": m.works} for m in case.masks]
    out["cache"] = case.cache.describe() if case.cache is not None else None
    out["cross"] = case.cross.describe()["inputs"] if case.cross is not None else None
    out["stateful"], out["random_in_eval"], out["dropout"] = case.subject.stateful, case.stochastic, case.dropout
    if case.subject.moved:
        out["moved_parameters"] = case.subject.moved[:8]
    return out


__all__ = ["NotCallable", "inferred", "prepare"]
