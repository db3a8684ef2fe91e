"""Why items of a batch see each other: the pattern of who sees whom names the cause."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.checks.case import Case
from regard.checks.influence import replace_token


def flat_influence(case: Case) -> Tensor:
    """(B * N, B * N) bool: does output row r (item-major) react to input row s?"""
    batch, base = case.base
    source = batch[case.call.keys]
    count, tokens = source.shape[:2]
    size = max(float(base.abs().max()), 1e-12)
    columns = []
    for b in range(count):
        for t in range(tokens):
            moved = {n: x.clone() for n, x in batch.items()}
            replace_token(moved[case.call.keys], b, t, number=b * tokens + t)
            out = case.run(moved)
            columns.append(((out - base).abs().amax(-1) / size > case.tolerance).flatten())
    return torch.stack(columns, 1)


def cause_of_cross_talk(case: Case) -> tuple[str, str, str]:
    """(kind, likely cause, fix)."""
    sites = case.facts.get("sites") or []
    for site in sites:
        if getattr(site, "sums_to_one_over_batch", False):
            return "softmax-axis-batch", "the weights sum to 1 along the batch axis", "softmax over the key axis: dim=-1"
    if case.call.follows and not case.call.is_cross:
        batch, base = case.base
        rows = base.shape[0] * base.shape[1]
        if rows <= 64:
            sees = flat_influence(case)
            residue = torch.arange(rows) % base.shape[0]
            if torch.equal(sees, residue[:, None] == residue[None]):
                return (
                    "batch-first",
                    "rows r and s see each other exactly when r = s modulo the batch size: (B, L) was read as (L, B) by view or reshape",
                    "use transpose(0, 1) between batch-first and sequence-first, never reshape",
                )
    if any(isinstance(m, nn.MultiheadAttention) and not m.batch_first for m in _modules(case)):
        return (
            "batch-first",
            "an nn.MultiheadAttention with batch_first=False is given (B, L, D): it attends along the batch",
            "construct it with batch_first=True",
        )
    return (
        "batch-cross-talk",
        "the axis that holds batch x heads is folded in one order and unfolded in the other, or a reduction runs over the batch axis",
        "fold as (B, H) and unfold as (B, H): view(B, H, L, D) after reshape(B * H, L, D)",
    )


def _modules(case: Case) -> list[nn.Module]:
    return list(case.subject.pristine.modules()) if case.subject.is_module else []
