"""What a module does with places: run on identical tokens, so that all that differs between rows is the position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks.case import Batch, Case
from regard.checks.sites import need_site, recorded, watch
from regard.intercept import Site

SAME = 1e-7


@dataclass(frozen=True)
class Places:
    """One site on identical tokens (two different ones, in two runs).

    scores: (H, T, S) of item 0, NaN where hidden. rotary: q or k change with the place while values do not, and the
    change depends on the token (a rotation, not an added embedding). added: scores change with the place by a fixed bias.
    """

    site: Site
    scores: Tensor
    rotary: bool
    added: bool
    absolute: bool  # values change with the place: positions were added to the input


def identical(case: Case, number: int, tokens: int | None = None) -> Batch:
    """Every token of every item is the same."""
    batch = case.sample(number, tokens=tokens)
    return {n: x[:1, :1].expand_as(x).contiguous() for n, x in batch.items()}


def places(case: Case, *, tokens: int | None = None) -> list[Places]:
    """One entry per site of the plain call with known q, k and scores, on one line of tokens or a grid."""
    key = ("places", tokens)
    if key not in case.facts:
        need_site(case)
        case.need(not case.call.is_cross, "queries and keys are different streams")
        a = watch(case, identical(case, 30, tokens)).sites
        b = watch(case, identical(case, 31, tokens)).sites
        case.facts[key] = [p for p in map(_read, a, b) if p is not None]
    return case.facts[key]


def _read(a: Site, b: Site) -> Places | None:
    whole = a.scores()
    if a.query is None or a.key is None or whole is None:
        return None
    if a.kind == "other" or a.learned_keys or a.learned_queries:
        return None
    if a.query.shape[-2] != a.key.shape[-2] or b.query is None or b.key is None:
        return None
    q, k, _q2, k2 = (first_item(t) for t in (a.query, a.key, b.query, b.key))
    moves = varies(q) or varies(k)
    inner = slice(q.shape[1] // 3, q.shape[1] - q.shape[1] // 3)  # a convolution changes the ends alone
    goes_on = varies(q[:, inner]) or varies(k[:, inner])
    drift, drift2 = k - k[:, :1], k2 - k2[:, :1]
    fixed = float((drift - drift2).abs().max()) < SAME * max(float(drift.abs().max()), 1e-30)
    absolute = a.value is not None and a.value.shape[-2] == a.key.shape[-2] and varies(first_item(a.value))
    scores = first_item(whole).clone()
    seen = first_item(recorded(a.visible()).expand(whole.shape)) > 0
    scores[~seen] = float("nan")
    dots = q @ (k if k.shape[0] == q.shape[0] else k[:1]).transpose(-1, -2)
    added = (
        not moves
        and bool((torch.nan_to_num(scores - scores[:, :1, :1]).abs() > 1e-9).any())
        and not varies(dots.flatten(1)[..., None])
    )
    return Places(a, scores, rotary=moves and goes_on and not fixed and not absolute, added=added, absolute=absolute)


def first_item(tensor: Tensor) -> Tensor:
    """(H, T, D) of the first item; heads folded into the batch count as heads."""
    tensor = tensor.detach().double()
    if tensor.ndim >= 4:
        return tensor.reshape(-1, *tensor.shape[-3:])[0]
    return tensor[:1] if tensor.ndim == 3 else tensor[None]


def varies(x: Tensor) -> bool:
    """Along the token axis."""
    return float((x - x[:, :1]).abs().max()) > SAME * max(float(x.abs().max()), 1e-30)


def distance_spread(scores: Tensor) -> float:
    """How far scores of equal distance differ: of places on a line, or on any map of so many places (rows times columns)."""
    t, s = scores.shape[-2:]
    maps = [(h, t // h) for h in range(2, t // 2 + 1) if t % h == 0] if t == s else []
    return min([diagonal_spread(scores), *(_map_spread(scores, h, w) for h, w in maps)])


def _map_spread(scores: Tensor, rows: int, columns: int) -> float:
    """The same for places in raster order on a map: equal distances in rows and in columns."""
    i = torch.arange(rows * columns)
    down, right = (i // columns)[:, None] - i // columns, (i % columns)[:, None] - i % columns
    group = ((down + rows) * 2 * columns + right + columns).flatten()
    flat = torch.nan_to_num(scores.flatten(1))
    seen = (~torch.isnan(scores)).flatten(1).to(flat.dtype)
    size = 4 * (rows + 1) * (columns + 1)
    total = torch.zeros(flat.shape[0], size, dtype=flat.dtype).index_add_(1, group, flat)
    count = torch.zeros(flat.shape[0], size, dtype=flat.dtype).index_add_(1, group, seen)
    off = (flat - (total / count.clamp_min(1))[:, group]) * seen
    known = scores[~torch.isnan(scores)]
    spread = float((known - known.mean()).abs().max()) if known.numel() else 0.0
    return float(off.abs().max()) / max(spread, 1e-30)


def diagonal_spread(scores: Tensor) -> float:
    """How far scores of equal distance differ, relative to how far scores of different distance differ; NaN ignored."""
    _h, t, s = scores.shape
    worst = 0.0
    for d in range(-t + 1, s):
        line = torch.diagonal(scores, d, dim1=-2, dim2=-1)
        line = torch.where(torch.isnan(line), line.nanmean(-1, keepdim=True), line)
        if line.shape[-1] > 1:
            worst = max(worst, float(torch.nan_to_num(line - line.mean(-1, keepdim=True)).abs().max()))
    size = scores[~torch.isnan(scores)]
    spread = float((size - size.mean()).abs().max()) if size.numel() else 0.0
    return worst / max(spread, 1e-30)
