"""Why a mask does not hide: what reaches the scores at hidden keys, and what happens to the weights after."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case
from regard.checks.infer_mask import masked, real_rows
from regard.checks.layers import stacks
from regard.checks.mask_use import ALIKE, MaskUse
from regard.checks.masks import flipped, keep_pattern, leak, replaced
from regard.checks.sites import watch
from regard.intercept import Site

WEAK = 50.0  # a fill value closer to zero than this still leaves weight
Cause = tuple[str | None, str, str]

FIX = {
    "mask-inverted": "invert the mask where it is applied: masked_fill(~keep, -inf)",
    "mask-dtype": "mask = mask.bool() first, or compare with == 0",
    "mask-ignored": "apply the mask to the scores before the softmax, on every path",
    "mask-wrong-source": "apply the context's mask to the keys",
    "mask-batch-head-order": "repeat_interleave(heads, 0) for scores folded as (B * H); or keep (B, 1, 1, S) and (B, H, T, S)",
    "mask-multiplied": "fill with -inf instead of multiplying: a score of 0 is an ordinary score",
    "mask-added-as-01": "scores.masked_fill(hidden, -inf), or add (1 - keep) * -1e9",
    "mask-fill-weak": "fill with float('-inf') or torch.finfo(dtype).min",
    "softcap-after-mask": "cap the scores first, then mask",
    "mask-after-softmax": "mask the scores before the softmax, or divide by the sum of what is left",
    "mask-query-axis": "broadcast the mask over queries: keep[:, None, None, :]",
    "mask-shifted": "pad the mask with True on the side where the extra tokens stand",
    "padding-leak-nonattention": "give the mask to that layer too, or normalise over channels only",
    "double-softmax": "mask again before the second softmax, or drop it",
    "linear-normaliser-wrong": "zero the hidden keys in the numerator and in the normaliser",
}


def mask_cause(case: Case, call: Call, use: MaskUse) -> Cause:
    """(kind or None, likely cause, fix) for a mask argument that leaks or does nothing."""
    kind, cause = _kind(case, call, use)
    return kind, cause, FIX.get(kind or "", "compare a masked run with the same tokens trimmed")


def _kind(case: Case, call: Call, use: MaskUse) -> tuple[str | None, str]:
    if not use.changes:
        other = next(
            (m for m in case.masks if m.parameter != use.parameter and m.source == use.source and m.changes), None
        )
        if other is not None:
            return (
                "mask-wrong-source",
                f"{other.parameter} hides the {use.source} tokens, and {use.parameter} is never used",
            )
        dtype = _other_dtype(case, call, use)
        if dtype is not None:
            return (
                "mask-dtype",
                f"as {dtype} the mask works, as {use.dtype} it hides nothing: ~ means another thing there",
            )
        return "mask-ignored", f"{use.parameter} never reaches the scores"
    if _flip_works(case, call, use):
        return "mask-inverted", f"with the opposite polarity {use.parameter} hides exactly what it should"
    leaks = leak(case, call, use, 5.0)[0] > case.big
    other = _other_dtype(case, call, use) if leaks else None  # where nothing leaks, other dtypes hide no better
    if other is not None:
        return (
            "mask-dtype",
            f"as {other} the mask works, as {use.dtype} it does not: an operator like ~ that means another thing for that dtype",
        )
    if leaks and _alone_works(case, call, use):
        return (
            "mask-batch-head-order",
            "one item alone is masked right; in a batch, (batch, head) rows get the mask of another item",
        )
    try:
        return _from_sites(case, call, use)
    except Exception as error:
        case.notes.append(f"{use.parameter}: the masked run could not be watched ({type(error).__name__})")
    return None, "hidden keys still take part"


def _flip_works(case: Case, call: Call, use: MaskUse) -> bool:
    if use.dtype == "additive" or use.shape == "lengths":
        return False
    try:
        return leak(case, call, flipped(use), 5.0)[0] <= case.tolerance and leak(case, call, use, 5.0)[0] > case.big
    except Exception:
        return False


def _other_dtype(case: Case, call: Call, use: MaskUse) -> str | None:
    """Does the same 0/1 mask hide in another dtype?"""
    for dtype in ("bool", "int", "float"):
        if use.dtype in ("bool", "int", "float") and dtype != use.dtype and use.shape != "lengths":
            other = replace(use, dtype=dtype)
            try:
                if leak(case, call, other, 5.0)[0] <= case.tolerance and _changes(case, call, other):
                    return dtype
            except Exception:
                continue
    return None


def _changes(case: Case, call: Call, use: MaskUse) -> bool:
    batch = case.sample(1, call=call)
    return (
        case.difference(masked(case, call, use, batch, keep_pattern(use, batch)), case.run(batch, call=call))
        > case.tolerance
    )


def _alone_works(case: Case, call: Call, use: MaskUse) -> bool:
    if case.call.sources[case.call.query].batch < 2 or use.shape in ALIKE:
        return False
    batch = {n: x[:1] for n, x in case.sample(1, call=call).items()}
    keep = keep_pattern(use, batch)
    try:
        before = masked(case, call, use, batch, keep)
        after = masked(case, call, use, replaced(batch, use, keep, 5.0), keep)
        plain = case.run(batch, call=call)
    except Exception:
        return False
    rows = real_rows(call, use, keep, before)
    return (
        case.difference(after[rows], before[rows]) <= case.tolerance and case.difference(plain, before) > case.tolerance
    )


def _from_sites(case: Case, call: Call, use: MaskUse) -> tuple[str | None, str]:
    batch = {n: x[:1] for n, x in case.sample(1, call=call).items()}
    keep = keep_pattern(use, batch)
    queries = batch[call.query].shape[1]
    with_mask = watch(
        case, batch, call=call, extra={use.parameter: use.encode(keep, queries, case.subject.dtype)}
    ).sites
    without = watch(case, batch, call=call).sites
    rows = keep[0] if use.parameter in case.signature.segments else None  # tokens of another document see each other
    others = [batch[n].shape[1] for n in batch if n != use.source]  # numbers of tokens that this mask does not hide
    for masked_site, plain in zip(with_mask, without):
        weights = masked_site.weights()
        if weights is not None and weights.shape[-1] in others and weights.shape[-1] != keep.shape[1]:
            continue
        found = _from_site(masked_site, plain, keep[0], rows)
        if found is not None:
            return found
    without_mask = _layers_without(with_mask, keep[0])
    if without_mask:
        return "mask-ignored", f"{', '.join(without_mask)} gives hidden keys weight; the other attention layers do not"
    if not with_mask:
        return None, "hidden keys still take part; no softmax was seen inside"
    return "padding-leak-nonattention", "the attention weights at hidden keys are zero; another layer mixes tokens"


def _layers_without(sites: list[Site], keep: Tensor) -> list[str]:
    """Paths of the layers that give hidden keys weight where others of their stack give none."""
    out: list[str] = []
    for stack in stacks(sites):
        hides = []
        for site in stack:
            weights = site.weights_used if site.weights_used is not None else site.weights()
            if weights is None or weights.shape[-1] != keep.numel():
                return []
            hides.append(float(weights[..., ~keep].abs().max()) < 1e-12)
        out += [s.path for s, h in zip(stack, hides) if not h] if any(hides) else []
    return out


def _from_site(site: Site, plain: Site, keep: Tensor, rows: Tensor | None) -> tuple[str | None, str] | None:
    """rows: the queries that are looked at, (T,) bool; None for all."""
    scores, before = _item(site.scores(), rows), _item(plain.scores(), rows)
    weights = _item(site.weights_used if site.weights_used is not None else site.weights(), rows)
    if weights is None or weights.shape[-1] < keep.numel():
        return None
    extra = weights.shape[-1] - keep.numel()
    hidden = torch.cat([torch.zeros(extra, dtype=torch.bool), ~keep])
    zero = weights.abs().amax(tuple(range(weights.ndim - 1))) < 1e-12
    if extra and bool(zero.any()) and not torch.equal(zero, hidden):
        return (
            "mask-shifted",
            f"keys {zero.nonzero().flatten().tolist()} get no weight; keys {hidden.nonzero().flatten().tolist()} (after {extra} extra) should",
        )
    if bool(zero[hidden].all()):
        if any(s.op == "mul" for s in site.after) and bool((weights.sum(-1) < 1 - 1e-9).any()):
            return "mask-after-softmax", "weights are multiplied by the mask after the softmax and do not sum to 1"
        return None
    if any(s.op == "softmax" for s in site.after):
        return "double-softmax", "a second softmax gives hidden keys weight again"
    flat = weights.reshape(-1, *weights.shape[-2:])
    if flat.shape[-2] == keep.numel() and not extra and _uniform(flat[:, ~keep]) and not _uniform(flat[:, keep]):
        return "mask-query-axis", "rows of hidden queries became uniform: the mask lies along the query axis"
    if scores is None or before is None or scores.shape != before.shape:
        return None
    untouched = bool(torch.isfinite(scores - before).all()) and float((scores - before).abs().max()) < 1e-12
    if untouched:
        return "mask-ignored", "scores are what they are without a mask, at hidden keys and at others"
    return _from_scores(site, scores[..., hidden], before[..., hidden])


def _uniform(rows: Tensor) -> bool:
    return rows.numel() > 0 and float((rows - rows.mean(-1, keepdim=True)).abs().max()) < 1e-9


def _from_scores(site: Site, after: Tensor, before: Tensor) -> tuple[str | None, str] | None:
    """What the scores at hidden keys became."""
    if (
        any(s.op == "tanh" for s in site.before)
        and bool(torch.isfinite(after).all())
        and float((after - after.flatten()[0]).abs().max()) < 1e-6
    ):
        return (
            "softcap-after-mask",
            f"the masked scores went through tanh: hidden keys keep the score {float(after.flatten()[0]):.3g}",
        )
    if float(after.abs().max()) == 0.0:
        return "mask-multiplied", "scores at hidden keys are exactly 0: the mask was multiplied into them"
    delta = (after - before).flatten()
    if bool(torch.isfinite(delta).all()) and float((delta - delta[0]).abs().max()) < 1e-6:
        step = float(delta[0])
        if abs(step) <= 1.0 + 1e-9:
            return "mask-added-as-01", f"scores at hidden keys moved by {step:+.3g}: the 0/1 mask was added as it is"
        return "mask-fill-weak", f"scores at hidden keys moved by only {step:+.3g}"
    if float((after - after.flatten()[0]).abs().max()) < 1e-9 and float(after.flatten()[0]) > -WEAK:
        return (
            "mask-fill-weak",
            f"hidden keys get the score {float(after.flatten()[0]):.3g}, which is no smaller than real scores",
        )
    if float((after - before).abs().max()) < 1e-12:
        return "mask-ignored", "scores at hidden keys are what they are without a mask"
    ratio = (after / before).flatten()
    if float((ratio - ratio[0]).abs().max()) < 1e-6:
        return "mask-multiplied", f"scores at hidden keys are multiplied by {float(ratio[0]):.3g}"
    return None


def _item(tensor: Tensor | None, rows: Tensor | None) -> Tensor | None:
    if tensor is None or rows is None or tensor.shape[-2] != rows.numel():
        return None if tensor is None else tensor.double()
    return tensor.double()[..., rows, :]


def example_of(use: MaskUse, batch: Batch) -> str:
    keep = keep_pattern(use, batch)
    hidden = [(~k).nonzero().flatten().tolist() for k in keep[:2]]
    return f"batch {keep.shape[0]}, {keep.shape[1]} keys, hidden {hidden[0]} of item 0" + (
        f" and {hidden[1]} of item 1" if len(hidden) > 1 else ""
    )
