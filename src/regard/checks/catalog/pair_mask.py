"""A mask of queries and keys lies the right way round."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.influence import replace_token
from regard.checks.mask_use import MaskUse
from regard.checks.masks import mask_uses
from regard.checks.rule import rule
from regard.checks.sites import attention_sites

SHAPES = ("TS", "BTS", "B1TS")


@rule("ATT110", kinds=("mask-query-axis",))
def pair_mask(case: Case) -> list[Verdict]:
    """Where a mask has another row for each query, a query sees the keys of its own row.

    Applies to one attention over one stream whose mask argument also takes (queries, keys): hidden pairs are drawn at random,
    a token is replaced, and only queries whose row keeps it may change.
    What goes wrong: the mask is transposed with the scores, or joined to an axis from the other side. Every mask that is the
    same for all queries, and every symmetric one, hides the fault.
    Why it matters: a causal mask lets every token see the future instead of the past.

    Bad:
        scores = scores.masked_fill(~mask.mT, float("-inf"))
    Good:
        scores = scores.masked_fill(~mask, float("-inf"))
    """
    out, looked = [], False
    for use, call in mask_uses(case):
        if not use.works or call.is_cross or not call.follows or len(attention_sites(case, call)) != 1:
            continue
        batch = case.sample(1, call=call)
        pairs = _pairs(batch[use.source].shape[0], batch[use.source].shape[1])
        shape = next((s for s in SHAPES if _accepted(case, call, replace(use, shape=s), pairs)), None)
        if shape is None:
            continue
        looked = True
        seen = _seen(case, call, replace(use, shape=shape), pairs)
        away, turned = seen & ~pairs[0], seen & ~pairs[0].mT
        if bool(away.any()) and not bool(turned.any()):
            t, s = away.nonzero()[0].tolist()
            out.append(
                Verdict(
                    "error",
                    f"{use.parameter} lies transposed: query {t} sees key {s}, which its row hides, and what its column keeps",
                    kind="mask-query-axis",
                    measured=f"{int(away.sum())} hidden pairs seen",
                    allowed=0,
                    example=f"{len(pairs[0])} tokens, hidden pairs drawn at random",
                    cause="the axes of queries and keys are exchanged",
                    fix="mask[..., query, key], as the scores are",
                )
            )
    case.need(looked, "no mask argument takes another row for each query")
    return out


def _pairs(batch: int, tokens: int) -> Tensor:
    """(B, T, T) bool, every second pair hidden, never a token from itself."""
    generator = torch.Generator().manual_seed(41)
    keep = torch.rand(batch, tokens, tokens, generator=generator) > 0.5
    return (keep[:1].expand_as(keep) | torch.eye(tokens, dtype=torch.bool)).contiguous()


def run_pairs(case: Case, call: Call, use: MaskUse, pairs: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """The output with (B, T, S) pairs, True = attend, in the argument."""
    mask = {"TS": pairs[0], "BTS": pairs, "B1TS": pairs[:, None]}[use.shape]
    if use.dtype == "additive":
        value: Tensor = torch.zeros(mask.shape, dtype=case.subject.dtype).masked_fill(~mask, -1e9)
    else:
        shown = mask if use.polarity == "keep" else ~mask
        value = shown.to({"bool": torch.bool, "int": torch.long}.get(use.dtype, case.subject.dtype))
    return case.run(batch, call=call, extra={use.parameter: value.clone()})


def _accepted(case: Case, call: Call, use: MaskUse, pairs: Tensor) -> bool:
    """Runs, and changes nothing when all pairs are kept."""
    batch = case.sample(1, call=call)
    try:
        every = run_pairs(case, call, use, torch.ones_like(pairs), batch)
        some = run_pairs(case, call, use, pairs, batch)
    except Exception:
        return False
    plain = case.run(batch, call=call)
    return some.shape == plain.shape and case.difference(every, plain) <= case.tolerance


def _seen(case: Case, call: Call, use: MaskUse, pairs: Tensor) -> Tensor:
    """(T, T) bool: which queries of item 0 change when a token is replaced; a token's own row is left out."""
    batch = case.sample(1, call=call)
    base = run_pairs(case, call, use, pairs, batch)[0]
    seen = torch.zeros(pairs.shape[1:], dtype=torch.bool)
    size = max(float(base.abs().max()), 1e-12)
    for s in range(pairs.shape[-1]):
        moved = {n: x.clone() for n, x in batch.items()}
        replace_token(moved[use.source], 0, s, number=s, size=3.0)
        seen[:, s] = (run_pairs(case, call, use, pairs, moved)[0] - base).abs().amax(-1) / size > case.tolerance
    return seen & ~torch.eye(len(seen), dtype=torch.bool)
