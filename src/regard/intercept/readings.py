"""Numbers read off a site: its scale, what each query sees, which key head each query head reads, Toeplitz structure."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.intercept.site import Site, _like_heads


class ScaleFit(NamedTuple):
    """logits = slope * (unscaled q . k) + one constant per row; r2 is the share of the variance explained."""

    slope: float
    r2: float


def effective_scale(site: Site) -> ScaleFit | None:
    """The factor between q k^T and the softmax input, by least squares over visible entries, row means removed.

    Scalars multiplied into q or k before the product count: q and k are those before any scalar factor. An additive bias that
    varies along the keys lowers r2. None where q, k or the logits are unknown, or where no row has two visible keys.
    """
    raw, scores = site.raw_scores(), site.scores()
    if raw is None or scores is None or scores.shape[:-1] != raw.shape[:-1]:
        return None
    scores = scores[..., : raw.shape[-1]].double()
    raw, seen = raw.double(), _seen_of(site, scores)
    x, y = _row_centred(raw, seen), _row_centred(scores, seen)
    power = (x * x).sum()
    if power <= 0:
        return None
    slope = (x * y).sum() / power
    rest, total = (y - slope * x).square().sum(), y.square().sum()
    prior = 1.0
    for factor in (*site.query_factors, *site.key_factors):
        prior *= float(factor)
    return ScaleFit(float(slope) * prior, float(1 - rest / total) if total > 0 else 1.0)


def _seen_of(site: Site, scores: Tensor) -> Tensor:
    seen = site.visible()
    assert seen is not None
    return seen[..., : scores.shape[-1]].expand_as(scores) & scores.isfinite()


def _row_centred(x: Tensor, seen: Tensor) -> Tensor:
    x = torch.where(seen, x, torch.zeros((), dtype=x.dtype))
    count = seen.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(seen, x - x.sum(-1, keepdim=True) / count, torch.zeros((), dtype=x.dtype))


def visible_keys(site: Site) -> Tensor | None:
    """(..., T, S) True where the query sees the key: not masked, and not multiplied by zero afterwards."""
    seen = site.visible()
    if seen is None:
        return None
    weights = site.weights()
    if weights is not None and any(s.op == "mul" for s in (*site.before, *site.after)) and weights.shape == seen.shape:
        seen = seen & (weights != 0)
    return seen


def key_span(site: Site) -> list[tuple[int, int, int]]:
    """Per query: (first visible key, last visible key, how many), over all leading axes together; (-1, -1, 0) for none."""
    seen = visible_keys(site)
    if seen is None:
        return []
    rows = seen.reshape(-1, *seen.shape[-2:]).any(0)
    spans = []
    for row in rows:
        keys = row.nonzero().flatten().tolist()
        spans.append((keys[0], keys[-1], len(keys)) if keys else (-1, -1, 0))
    return spans


def key_head_of_query_head(site: Site) -> list[int] | None:
    """For each query head, the first key head with the same keys that it reads: [0, 0, 1, 1] or, repeated, [0, 0, 2, 2].

    None unless the site has heads of their own, (B, H, T, D), or groups of them, (B, G, H / G, T, D).
    """
    if site.query is None or site.key is None or site.query.dim() != site.key.dim():
        return None
    if site.query.dim() == 5:
        q, k = site.query, site.key.expand(*site.query.shape[:3], *site.key.shape[-2:])
        return [
            next(g for g in range(h + 1) if torch.equal(t[:, g], t[:, h]))
            for t in [k.flatten(1, 2)]
            for h in range(q.shape[1] * q.shape[2])
        ]
    if site.query.dim() != 4:
        return None
    heads, groups = site.query.shape[1], site.key.shape[1]
    if groups != heads:
        return [h * groups // heads for h in range(heads)]
    key = _like_heads(site.key, site.query)
    return [next(g for g in range(h + 1) if torch.equal(key[:, g], key[:, h])) for h in range(heads)]


def toeplitz_residual(matrix: Tensor) -> float:
    """How far (..., T, S) is from depending on the distance only: 0 exactly Toeplitz, 1 no diagonal structure at all.

    The share of the variance that is left after the mean of each diagonal is taken out; non-finite entries are left out.
    """
    T, S = matrix.shape[-2:]
    x = matrix.reshape(-1, T, S).double()
    ok = x.isfinite()
    x = torch.where(ok, x, torch.zeros((), dtype=x.dtype))
    distance = (torch.arange(S)[None, :] - torch.arange(T)[:, None] + T - 1).expand(T, S).reshape(-1).to(x.device)
    flat, seen = x.flatten(1), ok.flatten(1).double()
    count = torch.zeros(x.shape[0], T + S - 1, dtype=x.dtype, device=x.device).index_add_(1, distance, seen)
    total = torch.zeros_like(count).index_add_(1, distance, flat)
    rest = torch.where(ok.flatten(1), flat - (total / count.clamp(min=1))[:, distance], torch.zeros((), dtype=x.dtype))
    mean = flat.sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp(min=1)
    around = torch.where(ok.flatten(1), flat - mean, torch.zeros((), dtype=x.dtype)).square().sum()
    return float(rest.square().sum() / around) if around > 0 else 0.0
