"""A mask that hides nothing changes nothing."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case, Verdict
from regard.checks.catalog.pair_mask import SHAPES, run_pairs
from regard.checks.mask_use import MaskUse
from regard.checks.masks import mask_uses, masked
from regard.checks.rule import rule


@rule("ATT104", kinds=("mask-shifted", "causal-missing", "mask-inverted", "path-mismatch"))
def all_keep_mask(case: Case) -> list[Verdict]:
    """With every key kept, the output equals the output without a mask.

    What goes wrong: the mask is shifted by a class token or a prefix, its polarity is inverted, or giving any mask
    switches something else off (the causal flag, most often).
    Why it matters: the two ways of saying "nothing is padded" train two different models.

    Bad:
        y = sdpa(q, k, v, attn_mask=mask, is_causal=self.causal and mask is None)
    Good:
        y = sdpa(q, k, v, attn_mask=mask & causal)
    """
    out = []
    for use, call in mask_uses(case):
        case.need(use.parameter not in case.signature.required, "it always needs a mask")
        batch = case.sample(1, call=call)
        plain = case.run(batch, call=call)
        keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
        change = case.difference(masked(case, call, use, batch, keep), plain)
        if change <= case.big or (
            use.said == "" and not use.works and use.dtype != "additive" and _flip_neutral(case, use, call)
        ):
            continue
        if use.shape == "lengths" and _counts_a_prefix(case, use, call, plain):
            case.notes.append(
                f"{use.parameter}: not exercised, it says how far the causal mask is lifted, not how long items are"
            )
            continue
        whole = use.shape in WHOLE or _says_causality(case, use, call, batch, plain)
        if whole and case.facts.get("causal"):
            out.append(
                Verdict(
                    "question",
                    f"{use.parameter} that keeps everything turns causality off: is it meant to replace the causal mask?",
                    kind="causal-missing",
                    measured=change,
                    allowed=case.tolerance,
                )
            )
            continue
        kind = _kind(case, use)
        out.append(Verdict(
            "error", f"{use.parameter} that hides nothing changes the output by {change:.2g} (relative)", kind=kind, measured=change, allowed=case.tolerance,
            example=f"all {keep.shape[1]} keys kept", cause=CAUSES[kind], fix=FIXES[kind],
        ))  # fmt: skip
    return out


WHOLE = ("TS", "BTS", "B1TS", "HTS", "BHTS")


def _counts_a_prefix(case: Case, use: MaskUse, call: Call, plain: Tensor) -> bool:
    """Is a length of 0 or 1 what no argument is? Then it counts tokens that see each other both ways."""
    if not case.facts.get("causal"):
        return False
    batch = case.sample(1, call=call)
    for count in (0, 1):
        given = torch.full((batch[use.source].shape[0],), count)
        try:
            if case.difference(case.run(batch, call=call, extra={use.parameter: given}), plain) <= case.tolerance:
                return True
        except Exception:  # it needs one token at least
            continue
    return False


def _says_causality(case: Case, use: MaskUse, call: Call, batch: Batch, plain: Tensor) -> bool:
    """Does the causal table, given in this argument, do what no mask does? Then the caller is expected to give the whole table."""
    keys = batch[use.source].shape[1]
    if not case.facts.get("causal") or keys != batch[call.query].shape[1]:
        return False
    table = torch.ones(keys, keys, dtype=torch.bool).tril().expand(batch[use.source].shape[0], -1, -1)
    for shape in SHAPES:
        try:
            given = run_pairs(case, call, replace(use, shape=shape), table, batch)
        except Exception:  # this shape is not taken
            continue
        if case.difference(given, plain) <= case.tolerance:
            return True
    return False


CAUSES = {
    "causal-missing": "when a mask is given, the causal mask is not applied",
    "mask-inverted": "True hides where the author says that it keeps",
    "mask-shifted": "the mask is padded on the wrong side, or with the wrong value, for the tokens that the module adds",
    "path-mismatch": "giving a mask takes another path than giving none",
}
FIXES = {
    "causal-missing": "combine the two masks with &",
    "mask-inverted": "invert the mask where it is applied",
    "mask-shifted": "F.pad(mask, (extra, 0), value=True) when the extra tokens come first",
    "path-mismatch": "compare both paths step by step",
}


def _flip_neutral(case: Case, use, call) -> bool:
    from regard.checks.masks import flipped

    batch = case.sample(1, call=call)
    keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
    return case.difference(masked(case, call, flipped(use), batch, keep), case.run(batch, call=call)) <= case.tolerance


def _kind(case: Case, use) -> str:
    from regard.checks.mask_cause import mask_cause
    from regard.checks.masks import call_for

    if case.facts.get("causal"):
        return "causal-missing"
    kind = mask_cause(case, call_for(case, use.parameter), use)[0]
    return kind if kind in ("mask-inverted", "mask-shifted") else "path-mismatch"
