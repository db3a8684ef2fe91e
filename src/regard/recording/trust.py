"""How far a map can be believed, measured: does masking a key change the output as much as the attention on it says?

Axes: H heads, T queries, S keys. Jain & Wallace 2019 (arXiv:1902.10186) and Wiegreffe & Pinter 2019 (arXiv:1908.04626) argue both
ways; for one input and one model it can be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.core.errors import CaptureError
from regard.recording.record import Record


def deletion(run: Callable[[Tensor], Tensor], keys: int, positions: Sequence[int] | None = None) -> Tensor:
    """(S,): how much the chosen output changes when a key is masked; NaN at positions that were not tried.

    Args:
        run: `run(keep)` gives the chosen output (any shape) with the keys where keep, (S,) bool, is False masked, as through
            an attention mask. It is called once as it is and once per position.
        positions: Keys to try; None = all.
    """
    keep = torch.ones(keys, dtype=torch.bool)
    with torch.no_grad():
        plain = run(keep).detach().float()
        change = torch.full((keys,), torch.nan)
        for position in range(keys) if positions is None else positions:
            without = keep.clone()
            without[position] = False
            change[position] = (run(without).detach().float() - plain).norm()
    return change


def rank_correlation(one: Tensor, other: Tensor) -> Tensor:
    """Spearman's rank correlation along the last axis, -1 to 1, ties by mean rank; NaN where one side is constant."""
    x, y = (ranks(t) - (t.shape[-1] - 1) / 2 for t in (one, other))
    power = x.square().sum(-1) * y.square().sum(-1)
    return torch.where(power > 0, (x * y).sum(-1) / power.clamp(min=1e-30).sqrt(), torch.nan)


def ranks(x: Tensor) -> Tensor:
    """Ranks from 0 along the last axis; equal numbers share their mean rank."""
    below = (x[..., None, :] < x[..., :, None]).sum(-1)
    equal = (x[..., None, :] == x[..., :, None]).sum(-1)
    return below + (equal - 1) / 2


def agreement(record: Record, change: Tensor, *, query: int | None = None) -> Tensor:
    """(H,): rank correlation between the attention that keys receive and the change of the output when they are masked.

    Stored as `record.scores["agreement"]`, and so printed beside the map.

    Args:
        change: (S,) from `deletion`; NaN positions are left out.
        query: Use the weights of one query, which must have been kept; None = the mean over queries that see the key.

    Raises:
        CaptureError: The sizes differ, the query was not kept, or fewer than 3 keys were tried.
    """
    if change.shape != (record.keys,):
        raise CaptureError(f"the record has {record.keys} keys and the changes are {tuple(change.shape)}")
    if query is not None:
        received = record.row(query)
        if received is None:
            raise CaptureError(f"query {query} was not kept; capture with level='rows', queries=[{query}]")
    else:
        assert record.received is not None
        seen = record.seen_by.clamp(min=1) if record.seen_by is not None else max(1, record.queries)
        received = record.received / seen
    tried = change.isfinite()
    if int(tried.sum()) < 3:
        raise CaptureError(f"{int(tried.sum())} keys were tried; a rank correlation needs 3")
    record.scores["agreement"] = rank_correlation(received[:, tried], change[tried].expand(len(received), -1))
    return record.scores["agreement"]
