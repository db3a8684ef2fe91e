"""What `watch` keeps of one attention site: a few numbers per head, from a few rows of a few samples, at a bounded cost.

Axes: B samples, H heads, T queries, S keys, D channels; n of B samples and t of T rows are looked at (at most SAMPLES and ROWS), so
that the work on scores is n * H * t * S whatever the batch and the length. Masks are read for every sample and row: one masked
item among many is what makes a NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.intercept.site import HIDDEN, Site

SAMPLES = 4  # of the batch, spread evenly: heads differ far more than samples do
ROWS = 32  # of the queries, spread evenly
HEAD_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "nhead", "heads", "h")


@dataclass
class SiteScores:
    """The numbers of one site. Lists have one entry per head; None stands for "cannot be known here"."""

    samples: int  # B
    heads: int
    queries: int
    keys: int
    head_dim: int | None
    width: int | None  # channels of the module's input
    scale: float | None  # what q . k was multiplied by before the softmax
    masked_rows: float  # share of the rows, of all samples, whose keys are all hidden
    rows: list[int]  # t, the queries that were looked at
    seen: Tensor | None  # (B, t, S) bool: in some head the query may see the key; None where no mask was applied
    per_head: dict[str, list[float | None]]  # see NAMES


NAMES = ("logit_std", "logit_max", "entropy", "max", "first", "last", "ahead", "similarity")


def score_site(site: Site) -> SiteScores | None:
    """The numbers of a site, or None where its shape is not known.

    per_head: `logit_std` (within a row, over the keys it may see), `logit_max` (largest absolute value), `entropy` (divided by ln of
    the number of allowed keys; rows with one are left out), `max` (mean of the largest weight), `first` and `last` (weight on key
    0 and on key S - 1), `ahead` (weight on keys after the query's own place), `similarity` (to the most similar other head:
    1 - |l - m| / (|l| + |m|) of the row-centred logits l and m and of their q . k, the smaller; 1 = equal).
    """
    shape = site.shape
    if shape is None or min(shape) == 0:
        return None
    B, H = samples_and_heads(site, shape)
    T, S = shape[-2:]
    n, t = _spread(B, SAMPLES), _spread(T, ROWS)
    logits, weights = _chosen(site, B, H, n, t)
    if weights is None and logits is None:
        return None
    visible = logits > HIDDEN if logits is not None else _known(weights) > 0
    if weights is None:
        weights = torch.softmax(_known(logits), -1)
    masked, seen = _masks(site, B, H, t)
    per_head = _per_head(logits, weights, visible, t, T)
    if logits is not None:
        per_head["similarity"] = _alike(logits, _raw(site, B, H, n, t), visible)
    q = site.query
    return SiteScores(
        samples=B, heads=H, queries=T, keys=S, head_dim=None if q is None else q.shape[-1],
        width=site.input_shape[-1] if site.input_shape else None, scale=_scale(site, logits, visible, B, H, n, t),
        masked_rows=masked, rows=t, seen=seen, per_head=per_head,
    )  # fmt: skip


def samples_and_heads(site: Site, shape: tuple[int, ...]) -> tuple[int, int]:
    """(B, H) of the leading axes: (B, H), or B * H folded into one, or windows in front of the heads."""
    lead = shape[:-2]
    if len(lead) != 1:
        return (1, 1) if not lead else (prod(lead[:-1]), lead[-1])
    folded = lead[0]
    for owner in (site.innermost, getattr(site.innermost, "config", None)):
        for name in HEAD_COUNTS:
            heads = getattr(owner, name, None)
            if isinstance(heads, int) and not isinstance(heads, bool) and heads > 1 and folded % heads == 0:
                return folded // heads, heads
    if site.batch and folded != site.batch and folded % site.batch == 0:
        return site.batch, folded // site.batch
    return folded, 1


def _known(x: Tensor | None) -> Tensor:
    assert x is not None
    return x


def _spread(size: int, most: int) -> list[int]:
    if size <= most:
        return list(range(size))
    return sorted({round(i * (size - 1) / (most - 1)) for i in range(most)})


def _four(x: Tensor, B: int, H: int) -> Tensor:
    """(B, H, ·, ·), shared axes of size 1 left as they are where they are axes of their own."""
    if x.dim() == 4:
        return x
    if x.dim() == 2:
        return x[None, None]
    lead = prod(x.shape[:-2])
    if lead == 1:
        return x.reshape(1, 1, *x.shape[-2:])
    return x.reshape(B, lead // B, *x.shape[-2:]) if lead % B == 0 else x.reshape(1, lead, *x.shape[-2:])


def _pick(x: Tensor, n: list[int], t: list[int] | None) -> Tensor:
    """Samples n and rows t of (B or 1, H or 1, T or 1, S)."""
    x = x[n] if x.shape[0] > 1 else x
    return x[:, :, t] if t is not None and x.shape[2] > 1 else x


def _heads(x: Tensor, H: int) -> Tensor:
    return x.repeat_interleave(H // x.shape[1], 1) if 1 < x.shape[1] < H and H % x.shape[1] == 0 else x


def _raw(site: Site, B: int, H: int, n: list[int], t: list[int]) -> Tensor | None:
    """q . k of the chosen rows, (n, H, t, S) in at least float32."""
    if site.query is None or site.key is None:
        return None
    q, k = _pick(_four(site.query, B, H), n, t), _pick(_four(site.key, B, H), n, None)
    exact = torch.promote_types(q.dtype, torch.float32)
    return q.to(exact) @ _heads(k, q.shape[1]).to(exact).transpose(-1, -2)


def _chosen(site: Site, B: int, H: int, n: list[int], t: list[int]) -> tuple[Tensor | None, Tensor | None]:
    """(logits, weights) of the chosen rows, (n, H, t, S); weights None for kernels that keep none."""
    if site.kind in ("fused", "native_mha"):
        logits = _raw(site, B, H, n, t)
        if logits is None:
            return None, None
        logits = logits * (1.0 if site.scale is None else site.scale)
        if site.bias is not None:
            logits = logits + _pick(_four(site.bias, B, H), n, t)
        if site.hidden is not None:
            logits = logits.masked_fill(_pick(_four(site.hidden, B, H), n, t), -torch.inf)
        if site.is_causal:
            row = torch.tensor(t, device=logits.device)[:, None]
            logits = logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device)[None] > row, -torch.inf)
        return logits, None
    made = site.weights_made if site.weights_made is not None else site.weights_used
    weights = None if made is None else _pick(_four(made, B, H), n, t).float()
    logits = None if site.logits is None else _pick(_four(site.logits, B, H), n, t).float()
    if logits is not None and weights is not None and logits.shape != weights.shape:
        logits = None
    return logits, weights


def _masks(site: Site, B: int, H: int, t: list[int]) -> tuple[float, Tensor | None]:
    """(share of fully masked rows, which keys each row in t may see in some head), over every sample."""
    if site.logits is not None:
        hidden = _four(site.logits, B, H) <= HIDDEN
    elif site.hidden is not None:
        hidden = _four(site.hidden, B, H)
    elif site.bias is not None:
        hidden = _four(_unexpanded(site.bias), B, H) <= HIDDEN
    else:
        return 0.0, None
    share = float(hidden.all(-1).float().mean())
    seen = ~(hidden[:, :, t] if hidden.shape[2] > 1 else hidden).all(1)
    return share, seen.expand(B, len(t), -1)


def _unexpanded(x: Tensor) -> Tensor:
    """The tensor with its broadcast leading axes back at size 1."""
    for axis in range(x.dim() - 2):
        if x.stride(axis) == 0 and x.shape[axis] > 1:
            x = x.narrow(axis, 0, 1)
    return x


def _scale(
    site: Site, logits: Tensor | None, visible: Tensor, B: int, H: int, n: list[int], t: list[int]
) -> float | None:
    """What q . k is multiplied by: a kernel's own argument, or by least squares over visible keys, row means removed."""
    prior = 1.0
    for factor in (*site.query_factors, *site.key_factors):
        prior *= float(factor)
    if site.kind in ("fused", "native_mha"):
        return None if site.scale is None else site.scale * prior
    raw = _raw(site, B, H, n, t)
    if raw is None or logits is None or raw.shape != logits.shape:
        return None
    x, y = _centred(raw, visible), _centred(logits, visible)
    power = float((x * x).sum())
    return float((x * y).sum()) / power * prior if power > 0 else None


def _centred(x: Tensor, visible: Tensor) -> Tensor:
    """Each row minus its mean over visible keys, 0 at the others."""
    x = x.masked_fill(~visible, 0.0).double()
    return (x - x.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp(min=1)).masked_fill(~visible, 0.0)


def _per_head(
    logits: Tensor | None, weights: Tensor, visible: Tensor, t: list[int], T: int
) -> dict[str, list[float | None]]:
    visible = visible.expand_as(weights)
    count = visible.sum(-1)
    rows = (count > 1) & weights.isfinite().all(-1)  # (n, H, t): rows that have a choice
    share = rows.sum((0, 2))
    zero = torch.zeros((), dtype=weights.dtype, device=weights.device)

    def mean(x: Tensor) -> Tensor:
        return torch.where(rows, x, zero).sum((0, 2)) / share  # 0 / 0 = NaN: no row has a choice

    entropy = -torch.special.xlogy(weights, weights).sum(-1) / count.clamp(min=2).log()
    S = weights.shape[-1]
    place = torch.tensor(t, device=weights.device)[:, None] + (S - T)
    ahead = (weights * (torch.arange(S, device=weights.device)[None] > place)).sum(-1)
    found = {
        "entropy": mean(entropy), "max": mean(weights.amax(-1)), "first": mean(weights[..., 0]), "last": mean(weights[..., -1]),
        "ahead": mean(ahead),
    }  # fmt: skip
    if logits is not None:
        centred = _centred(logits.expand_as(weights), visible)
        spread = (centred.square().sum(-1) / count.clamp(min=1)).sqrt()
        found["logit_std"] = mean(spread.to(weights.dtype))
        found["logit_max"] = logits.expand_as(weights).masked_fill(~visible, 0.0).abs().amax((0, 2, 3))
    table = torch.stack([found[name].double() for name in found]).cpu().tolist()
    return {name: [_number(x) for x in row] for name, row in zip(found, table)}


def _alike(logits: Tensor, raw: Tensor | None, visible: Tensor) -> list[float | None]:
    """Similarity of the heads by logits and by q . k, the smaller: masks and biases that heads share make no head equal."""
    found = _similarity(_centred(logits, visible))
    if raw is not None and raw.shape == logits.shape:
        found = torch.minimum(found, _similarity(_centred(raw, visible)))  # NaN stays
    return [_number(x) for x in found.tolist()]


def _similarity(centred: Tensor) -> Tensor:
    """(H,): 1 - |l - m| / (|l| + |m|) to the nearest other head; NaN where a head has no logits that vary, or is alone."""
    flat = torch.nan_to_num(centred, 0.0, 0.0, 0.0).movedim(1, 0).flatten(1)
    size = flat.norm(dim=-1)
    apart = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")
    alike = 1 - apart / (size[:, None] + size[None])
    alike.fill_diagonal_(-torch.inf)
    best = alike.amax(-1)
    return torch.where(best.isfinite(), best, torch.nan)


def _number(x: float) -> float | None:
    """JSON has no NaN and no infinity: None. Six digits are more than a few rows can tell."""
    return float(f"{x:.6g}") if x == x and abs(x) != float("inf") else None


def as_row(scores: SiteScores) -> dict[str, Any]:
    """The JSON-able part."""
    known = {name: getattr(scores, name) for name in ("samples", "heads", "queries", "keys", "head_dim", "width")}
    return {
        **known,
        "scale": None if scores.scale is None else _number(scores.scale),
        "masked_rows": scores.masked_rows,
        **scores.per_head,
    }
