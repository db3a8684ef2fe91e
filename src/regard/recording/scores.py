"""Scores of attention heads, one function each, from full weights; `finish` gives the same numbers from a streamed Summary.

Axes: weights (H, T, S), H heads, T queries, S keys. Query i stands at key `offset + i` (S - T for the last T queries of a sequence).
Every function returns (H,), or (H, T) where it says "per query". The two ways are tested against each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.recording.summary import BOUNDARY, LOCAL, Summary


def entropy(weights: Tensor) -> Tensor:
    """Per query, nats: -sum_j w_ij ln w_ij."""
    return -torch.special.xlogy(weights, weights).sum(-1)


def entropy_share(weights: Tensor, visible: Tensor) -> Tensor:
    """Per query, 0 to 1: entropy / ln(number of keys that the query may see); 0 where it may see one. visible: (T, S) bool."""
    count = visible.sum(-1)
    return torch.where(count > 1, entropy(weights) / count.clamp(min=2).log(), torch.zeros(()))


def span(weights: Tensor) -> Tensor:
    """Keys: e ** (mean entropy), the number of keys over which an even spread would be as undecided."""
    return entropy(weights).mean(-1).exp()


def sink(weights: Tensor) -> Tensor:
    """Mean weight on key 0 over queries 1 ... (Xiao et al. 2023, arXiv:2309.17453: attention sinks)."""
    return weights[:, 1:, 0].mean(-1) if weights.shape[1] > 1 else weights[:, :, 0].mean(-1)


def sink_column(weights: Tensor) -> Tensor:
    """Largest share of all mass that one key receives."""
    received = weights.sum(1)
    return received.amax(-1) / received.sum(-1).clamp(min=1e-30)


def at_distance(weights: Tensor, step: int, offset: int = 0) -> Tensor:
    """Per query: weight on the key `step` places after the query's own: -1 previous token, 0 self, 1 next (Voita et al. 2019)."""
    T, S = weights.shape[1:]
    key = torch.arange(T) + offset + step
    inside = (key >= 0) & (key < S)
    return torch.where(
        inside, weights.gather(-1, key.clamp(0, S - 1).expand(len(weights), T)[..., None])[..., 0], torch.zeros(())
    )


def apart(T: int, S: int, offset: int = 0) -> Tensor:
    """(T, S): how far each key stands from the query's own place, in keys."""
    return (torch.arange(S)[None] - torch.arange(T)[:, None] - offset).abs()


def distance(weights: Tensor, offset: int = 0) -> Tensor:
    """Per query, keys: sum_j w_ij |j - place_i| (Vig & Belinkov 2019, arXiv:1906.04284)."""
    return (weights * apart(weights.shape[1], weights.shape[2], offset)).sum(-1)


def local(weights: Tensor, offset: int = 0, reach: int = LOCAL) -> Tensor:
    """Per query: weight on keys at most `reach` away."""
    return (weights * (apart(weights.shape[1], weights.shape[2], offset) <= reach)).sum(-1)


def boundary(weights: Tensor, size: int = BOUNDARY) -> tuple[Tensor, Tensor]:
    """Mean weight on the first and on the last `size` keys."""
    return weights[..., :size].sum(-1).mean(-1), weights[..., -size:].sum(-1).mean(-1)


def profile(weights: Tensor, offset: int = 0) -> Tensor:
    """(H, K): mean mass at distances 0, 1, 2-3, 4-7, ... on either side."""
    away = apart(weights.shape[1], weights.shape[2], offset)
    kind = torch.where(away > 0, away.clamp(min=1).double().log2().floor().long() + 1, 0)
    return torch.stack([(weights * (kind == k)).sum(-1).mean(-1) for k in range(weights.shape[2].bit_length() + 1)], -1)


def duplicate_pairs(ids: Tensor, T: int, offset: int = 0) -> Tensor:
    """(T, S) bool: key j before query i holds the same token. ids: (S,)."""
    place = torch.arange(T) + offset
    return (ids[place][:, None] == ids[None]) & (torch.arange(len(ids))[None] < place[:, None])


def induction_pairs(ids: Tensor, T: int, offset: int = 0) -> Tensor:
    """(T, S) bool: key j comes right after an earlier occurrence of query i's token (Olsson et al. 2022, arXiv:2209.11895)."""
    after = torch.nn.functional.pad(duplicate_pairs(ids, T, offset), (1, 0))[:, :-1]
    return after & (torch.arange(len(ids))[None] <= (torch.arange(T) + offset)[:, None])


def on_pairs(weights: Tensor, pairs: Tensor) -> Tensor:
    """Mean weight on marked keys, over the queries that have one; NaN where none has. pairs: (T, S) bool."""
    has = pairs.any(-1)
    return (weights * pairs).sum(-1)[:, has].mean(-1)


def nucleus(weights: Tensor, share: float = 0.9) -> Tensor:
    """Per query, keys: the least number of keys that hold `share` of the row's mass."""
    ordered = weights.sort(-1, descending=True).values.cumsum(-1)
    return (ordered < share * ordered[..., -1:]).sum(-1) + 1


def vertical(weights: Tensor, part: float = 0.01) -> Tensor:
    """Share of all mass on the heaviest `part` of the keys, at least one (MInference: Jiang et al. 2024, arXiv:2407.02490)."""
    return heaviest(weights.sum(1), part)


def slash(weights: Tensor, offset: int = 0, part: float = 0.01) -> Tensor:
    """Share of the mass on the heaviest `part` of the distances back, at least one (same source)."""
    T, S = weights.shape[1:]
    back = torch.arange(T)[:, None] + offset - torch.arange(S)[None]
    sums = torch.zeros(len(weights), S).index_add_(
        1, back.clamp(0, S - 1).flatten(), (weights * (back >= 0)).flatten(1).float()
    )
    return heaviest(sums, part)


def heaviest(mass: Tensor, part: float = 0.01) -> Tensor:
    """Share of `mass` (H, N) that its heaviest entries hold: `part` of N, at least one."""
    top = max(1, round(part * mass.shape[-1]))
    return mass.topk(top, -1).values.sum(-1) / mass.sum(-1).clamp(min=1e-30)


def hidden(weights: Tensor, visible: Tensor) -> Tensor:
    """Mean mass of a row on keys that the mask hides; must be 0. visible: (T, S) bool."""
    return (weights * ~visible).sum(-1).mean(-1)


def head_distance(maps: Tensor, *, without_first: bool = True) -> Tensor:
    """(H, H): mean over rows of the square root of the Jensen-Shannon divergence, in sqrt(nats), 0 to 0.83 (Clark et al. 2019).

    maps: (H, P, Q), rows of mass, pooled or not. `without_first` takes out the first column (the sink), which makes all heads
    look alike. Pooling can only make this smaller: heads called different are different.
    """
    rows = maps.double()
    if without_first and rows.shape[2] > 1:
        rows = rows[..., 1:]
    rows = rows / rows.sum(-1, keepdim=True).clamp(min=1e-30)
    middle = (rows[:, None] + rows[None]) / 2
    bits = (entropy(middle) - (entropy(rows)[:, None] + entropy(rows)[None]) / 2).clamp(min=0)
    return bits.sqrt().mean(-1).float()


def output_share(output: Tensor, project: Tensor | None = None) -> Tensor:
    """(H,): share of each head in the summed squared norms of the heads' outputs. output: (H, T, Dv); project: (E, H * Dv) or None.

    With `project`, W_O, norms are those after the output projection: what the residual stream receives (Kobayashi et al. 2020).
    """
    H, _, width = output.shape
    output = output.float()
    if project is not None and project.shape[1] == H * width:
        columns = project.float().unflatten(1, (H, width))
        inner = torch.einsum("ehc,ehd->hcd", columns, columns)  # |W_O^h o|^2 = o (W_O^h)^T W_O^h o
        norms = ((output @ inner) * output).sum((1, 2)).clamp(min=0)
    else:
        norms = output.square().sum((1, 2))
    return norms / norms.sum().clamp(min=1e-30)


def finish(summary: Summary) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(scores, series) of a Record from what was added up."""
    series = {name: torch.cat(parts, -1) for name, parts in summary.series.items()}
    T = max(1, summary.queries)
    scores = {name: values.mean(-1) for name, values in series.items()}
    scores["span"] = scores["entropy"].exp()
    if summary.queries > 1:
        scores["sink"] = series["sink"][:, 1:].mean(-1)
    scores["sink_column"] = summary.received.amax(-1) / summary.received.sum(-1).clamp(min=1e-30)
    scores["first"], scores["last"], scores["hidden"] = summary.first / T, summary.last / T, summary.hidden / T
    scores["vertical"] = heaviest(summary.received)
    if summary.sampled:
        scores["nucleus_rows"] = summary.nucleus / summary.sampled
        scores["slash_rows"] = heaviest(summary.slash)
    for name, mass in summary.on_pairs.items():
        rows = int(summary.has_pair[name].sum())
        scores[name] = mass / rows if rows else torch.full_like(mass, torch.nan)
    return scores, series
