"""Who influences whom: which output rows change when one input token is replaced. Measured, not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case

MOST_TOKENS = 300


@dataclass(frozen=True)
class Influence:
    """change: (M, N), the largest relative change of output row m (item 0) when token n of item 0 is replaced.

    sees: (M, N) bool, change above the tolerance.
    """

    change: Tensor
    sees: Tensor

    @property
    def square(self) -> bool:
        return self.sees.shape[0] == self.sees.shape[1]

    @property
    def causal(self) -> bool:
        """No row sees a later token, and most rows see earlier ones."""
        n = self.sees.shape[1]
        lower = self.sees.tril(-1)
        return self.square and n > 2 and not bool(self.sees.triu(1).any()) and bool(lower.any())


def influence(
    case: Case,
    *,
    call: Call | None = None,
    source: str | None = None,
    tokens: int | dict[str, int] | None = None,
    grids: Any = None,
    **how: Any,
) -> Influence:
    """The influence matrix of one source on the main output. Cached for the plain call."""
    call = call or case.call
    source = source or call.keys
    plain = not how and tokens is None and grids is None
    key = ("influence", id(call), source)
    if plain and key in case.facts:
        return case.facts[key]
    batch = case.sample(call=call, tokens=tokens)
    count = batch[source].shape[1]
    case.need(count <= MOST_TOKENS, f"{count} tokens are too many to perturb one by one")
    base = case.run(batch, call=call, grids=grids, **how)
    rows = [_row(case, call, batch, base, source, n, grids, how) for n in range(count)]
    change = torch.stack(rows, 1)
    out = Influence(change, change > case.tolerance)
    if plain:
        case.facts[key] = out
    return out


def _row(
    case: Case, call: Call, batch: Batch, base: Tensor, source: str, token: int, grids: Any, how: dict[str, Any]
) -> Tensor:
    moved = {n: x.clone() for n, x in batch.items()}
    replace_token(moved[source], 0, token, number=token)
    out = case.run(moved, call=call, grids=grids, **how)
    size = max(float(base[torch.isfinite(base)].abs().max()) if bool(torch.isfinite(base).any()) else 1.0, 1e-12)
    change = (out[0] - base[0]).abs().amax(-1) / size
    appeared = torch.isfinite(out[0]).all(-1) != torch.isfinite(base[0]).all(-1)
    return torch.where(appeared, torch.full_like(change, float("inf")), change.nan_to_num(0.0))


def replace_token(x: Tensor, item: int, token: int, *, number: int = 0, size: float = 1.0) -> None:
    """Put another token there, in place: fresh normal values times `size`, or another id."""
    generator = torch.Generator().manual_seed(9000 + number)
    if x.is_floating_point():
        x[item, token] = size * torch.randn(x.shape[-1], generator=generator, dtype=x.dtype)
    else:
        low, top = int(x.min()), max(int(x.max()) + 1, 4)  # within the ids that were drawn: others may be special
        span = max(top - low, 2)
        x[item, token] = low + (x[item, token] - low + 1 + number % (span - 1)) % span


def is_causal(case: Case) -> bool:
    """Measured on the plain call; a design's word wins."""
    if case.design.causal is not None:
        return case.design.causal
    if case.call.is_cross or not case.call.follows:
        return False
    return influence(case).causal
