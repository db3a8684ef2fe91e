"""Packed documents: an argument that says which document each token is from hides the tokens of the others."""

from __future__ import annotations

from dataclasses import replace

from regard.checks.case import Case
from regard.checks.causality import hiding_step
from regard.checks.infer_mask import pattern, try_use
from regard.checks.mask_use import MaskUse
from regard.checks.sites import watch


def document_masks(case: Case) -> list[MaskUse]:
    """The arguments of document numbers that hide tokens, as masks: what is kept is one document, what is hidden another.

    Token types that are embedded change the output when all are the same, and are none of these; nor are those that only
    shift scores, since nothing is hidden by them.
    """
    if case.call.is_cross or case.stochastic:
        return []
    found = []
    for name in case.signature.segments:
        use = MaskUse(name, case.call.query, "BS", "int", "keep")
        trial = try_use(case, case.call, use, [])
        if trial is None or not trial.neutral or not trial.changes or not (trial.works or _hides(case, use)):
            case.notes.append(f"{name}: not exercised, it does not hide the tokens of other documents")
            continue
        found.append(replace(use, works=trial.works, said="another document"))
    return found


def _hides(case: Case, use: MaskUse) -> bool:
    """Does a step on the way to some weights hide scores, once there are two documents?"""
    batch = case.sample()
    keep = pattern(*batch[use.source].shape[:2])
    given = use.arguments(keep, batch[case.call.query].shape[1], case.subject.dtype)
    return any(hiding_step(step) for site in watch(case, batch, extra=given).sites for step in site.before)
