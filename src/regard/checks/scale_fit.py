"""The factor between q . k and the scores, fitted on the difference of two inputs, so that every fixed bias and mask drops out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Case
from regard.checks.sites import recorded, watch
from regard.intercept import Site

TRUST = 0.999
ALMOST = 1 - 1e-9  # of a cap: beyond, what was capped cannot be read back


@dataclass(frozen=True)
class Fit:
    """scores = slope * q . k + anything that depends on the place only; r2 says how much of the change that explains."""

    slope: float
    r2: float
    spread: float  # how far the slopes of the heads differ, relative
    head_dim: int
    queries: int
    keys: int
    normalised: bool  # all queries (and keys) have the same length: QK-norm
    site: Site
    cap: float | None = None  # of a tanh: the scores end as cap * tanh(...)


def fits(case: Case, call: Call | None = None, *, tokens: int | dict[str, int] | None = None) -> list[Fit]:
    """One fit per attention site whose q, k and scores are known."""
    call = call or case.call
    key = ("fits", id(call), str(tokens))
    if key not in case.facts:
        first = watch(case, case.sample(0, call=call, tokens=tokens), call=call).sites
        second = watch(case, case.sample(1, call=call, tokens=tokens), call=call).sites
        case.facts[key] = [f for f in map(_fit, first, second) if f is not None]
    return case.facts[key]


def _fit(a: Site, b: Site) -> Fit | None:
    if a.query is None or a.key is None or a.learned_keys or a.kind == "other":
        return None
    raw_a, raw_b, s_a, s_b = a.raw_scores(), b.raw_scores(), a.scores(), b.scores()
    if raw_a is None or raw_b is None or s_a is None or s_b is None:
        return None
    if s_a.shape[:-1] != raw_a.shape[:-1] or raw_a.shape != raw_b.shape:
        return None
    cap = _cap(a)
    if cap is not None:
        s_a, s_b = (cap * torch.atanh((s / cap).clamp(-ALMOST, ALMOST)) for s in (s_a.double(), s_b.double()))
    n = raw_a.shape[-1]
    seen = (recorded(a.visible()) & recorded(b.visible()))[..., :n].expand(raw_a.shape)
    x, y = (
        _centred(raw_a - raw_b, seen),
        _centred((s_a - s_b)[..., :n].nan_to_num(0.0, 0.0, 0.0).expand(raw_a.shape), seen),
    )
    power = float((x * x).sum())
    if power <= 0:
        return None
    slope = float((x * y).sum()) / power
    total = float((y * y).sum())
    r2 = 1 - float((y - slope * x).square().sum()) / total if total > 0 else 1.0
    prior = math.prod(float(f) for f in (*a.query_factors, *a.key_factors)) if _single(a) else 1.0
    return Fit(slope * prior, r2, _spread(x, y), _width(a.query, a.key), raw_a.shape[-2], n, _normalised(a), a, cap)


def _cap(site: Site) -> float | None:
    """c, where the scores end as c * tanh(...), with masks at most behind it: what stands before can then be read back."""
    ops = [s.op for s in site.before]
    if ops.count("tanh") != 1:
        return None
    after = site.before[ops.index("tanh") + 1 :]
    factors = [s.factor for s in after if s.op == "scale"]
    if any(s.op not in ("scale", "fill", "where", "cast") for s in after) or None in factors or not factors:
        return None
    return abs(math.prod(float(f) for f in factors if f is not None)) or None


def _width(query: Tensor, key: Tensor) -> int:
    """Channels that are contracted; those that are zero everywhere were padded for a kernel and add nothing."""
    filled = [t.detach().abs().flatten(0, -2).amax(0) > 0 for t in (query, key)]
    both = filled[0] & filled[1] if filled[0].shape == filled[1].shape else filled[0]
    return int(both.sum()) or query.shape[-1]


def _single(site: Site) -> bool:
    return all(not isinstance(f, Tensor) or f.numel() == 1 for f in (*site.query_factors, *site.key_factors))


def _spread(x: Tensor, y: Tensor) -> float:
    """Relative spread of per-head slopes (a learned temperature per head)."""
    if x.ndim < 4:
        return 0.0
    slopes = (x * y).sum((0, -1, -2)) / (x * x).sum((0, -1, -2)).clamp_min(1e-30)
    return float((slopes.max() - slopes.min()).abs() / slopes.abs().max().clamp_min(1e-30))


def _centred(x: Tensor, seen: Tensor) -> Tensor:
    x = torch.where(seen, x.double(), torch.zeros((), dtype=torch.float64))
    mean = x.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(seen, x - mean, torch.zeros((), dtype=torch.float64))


def _normalised(site: Site) -> bool:
    """Do the queries of each head have one length?"""
    assert site.query is not None
    norms = site.query.double().norm(dim=-1)
    if norms.numel() <= 4 or norms.shape[-1] < 3:
        return False
    return float((norms.std(-1) / norms.mean(-1).clamp_min(1e-30)).max()) < 0.02


def name_of(slope: float, fit: Fit, widths: dict[str, int]) -> tuple[str | None, str]:
    """(kind, words) for a slope that is not 1 / sqrt(head_dim)."""
    d = fit.head_dim
    table = [
        (1.0, "scale-missing", "1: no scale at all"),
        (1.0 / d, "scale-dk-not-sqrt", f"1/{d} = 1/head_dim: the root is missing, or it is scaled twice"),
        (math.sqrt(d), "scale-inverted", f"sqrt({d}) = sqrt(head_dim): multiplied instead of divided"),
        (float(d), "scale-inverted", f"{d} = head_dim: multiplied instead of divided"),
        (d**-0.25, "scale-wrong-size", f"{d} ** -0.25: only one of q and k is scaled"),
    ]
    for name, w in widths.items():
        if w != d and w > 1:
            table.append(
                (
                    w**-0.5,
                    "scale-embed-dim" if "width" in name else "scale-wrong-size",
                    f"1/sqrt({w}), {name} (head_dim is {d})",
                )
            )
            table.append((1.0 / w, "scale-dk-not-sqrt", f"1/{w}, {name}"))
    for value, kind, words in table:
        if abs(slope / value - 1) < 2e-3:
            return kind, words
    return None, f"{slope:.4g} = 1/sqrt({1 / slope**2:.4g})" if slope else "0"


def widths_of(case: Case, fit: Fit) -> dict[str, int]:
    """Sizes that a wrong scale may have used."""
    out = {}
    for source in case.call.sources.values():
        out["the model width"] = source.width * source.heads
    query = recorded(fit.site.query)
    if query.ndim == 4:
        out["the inner width"] = query.shape[1] * fit.head_dim
        out["the number of heads"] = query.shape[1]
    out["the number of keys"] = fit.keys
    return out
