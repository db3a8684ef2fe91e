"""Why items of a batch see each other: the pattern of who sees whom names the cause."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from regard.checks.case import Batch, Case
from regard.checks.influence import replace_token
from regard.checks.sites import attention_sites, watch


def change_by_others(case: Case) -> float:
    """How much the first or the last item changes (relative) when only the other items of its batch are replaced."""
    return change_and_item(case)[0]


def change_and_item(case: Case) -> tuple[float, int]:
    """The same with the number of the item that changes more: what reads item 0 for all shows in the others alone."""
    if "change_by_others" not in case.facts:
        batch, base = case.base
        size = max(float(base.abs().max()), 1e-12)
        found = []
        last = base.shape[0] - 1 if all(x.shape[0] == base.shape[0] for x in batch.values()) else 0
        for item in dict.fromkeys((0, last)):
            out = case.run(others_replaced(case, item))
            found.append((float((out[item] - base[item]).abs().nan_to_num(0).max()) / size, item))
            if found[-1][0] > case.big:
                break
        case.facts["change_by_others"] = max(found, key=lambda f: f[0])
    return case.facts["change_by_others"]


def others_replaced(case: Case, item: int) -> Batch:
    """The usual sample with new tokens for all items but one."""
    moved = {n: x.clone() for n, x in case.base[0].items()}
    for x in moved.values():
        for b in range(x.shape[0]):
            for t in range(x.shape[1]) if b != item else ():
                replace_token(x, b, t, number=b * 100 + t)
    return moved


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


def _softmax_over_batch(case: Case) -> bool:
    """A softmax along an axis that is as long as the batch, or as the batch times the queries, and leads."""
    batch, tokens = case.call.sources[case.call.query].batch, case.call.sources[case.call.query].tokens
    run = watch(case, case.sample())
    for site in run.sites:
        made = site.weights_made
        if (
            made is not None
            and site.softmax_axis is not None
            and site.softmax_axis != -1
            and made.ndim + site.softmax_axis == 0
            and made.shape[0] in (batch, batch * tokens)
        ):
            return True
    return any(
        re.search(rf"softmax over axis (0|-\d+) of \({batch}, ", note) and " axis 0 " in note
        for note in run.seen.unknown
    )


PURPOSE = re.compile(
    r"inter_?-?samples?|(attend\w*|attention|look\w*) (to|over|between|across) (all |the )*(other )?(samples|batch|examples|records)"
    r"|across (the )?(batch|samples|records)",
    re.IGNORECASE,
)


def across_on_purpose(case: Case) -> str | None:
    """What says that items are meant to see each other: the author's words, or a layer as wide as all tokens of an item together
    where the items of the batch are the keys. None where nothing does.
    """
    parts = _modules(case)
    said = case.evidence.says(PURPOSE.pattern) or next(
        (m.group(0) for part in parts if (m := PURPOSE.search(type(part).__name__))), None
    )
    if said is not None:
        return f"its text or a name says {said!r}"
    source = case.call.sources[case.call.query]
    sites = attention_sites(case)
    if not any(s.weights_used is not None and s.weights_used.shape[-1] == source.batch for s in sites):
        return None
    inside = {s.weights_used.shape[-1] for s in sites if s.weights_used is not None} | {source.tokens}
    single = {source.width, *(m.embedding_dim for m in parts if isinstance(m, nn.Embedding)), *_normed(parts)}
    joined = [
        (n, d) for n in sorted(inside - {source.batch, 1}) for d in sorted(single - {1}) if _reads(parts, n * d, d)
    ]
    return f"a layer reads {joined[0][0]} x {joined[0][1]} numbers, all tokens of an item at once" if joined else None


def _normed(parts: list[nn.Module]) -> set[int]:
    return {m.normalized_shape[0] for m in parts if isinstance(m, nn.LayerNorm) and len(m.normalized_shape) == 1}


def _reads(parts: list[nn.Module], width: int, single: int) -> bool:
    """Is there a projection of so many numbers that does not go back to the width of one token, as the end of an MLP does?"""
    linear = any(isinstance(m, nn.Linear) and m.in_features == width and m.out_features != single for m in parts)
    return linear or any(isinstance(m, nn.MultiheadAttention) and m.embed_dim == width for m in parts)


def cause_of_cross_talk(case: Case) -> tuple[str, str, str]:
    """(kind, likely cause, fix)."""
    if _softmax_over_batch(case):
        return "softmax-axis-batch", "the weights sum to 1 along the batch axis", "softmax over the key axis: dim=-1"
    if case.call.follows and not case.call.is_cross:
        _batch, base = case.base
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
