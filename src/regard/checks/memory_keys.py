"""Keys that begin with a memory: where the causal triangle of the queries stands among them."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Case, Verdict
from regard.checks.sites import attention_sites, recorded, row_sources, token_offset


def triangle_over_the_memory(case: Case) -> Verdict | None:
    """Keys are a memory and, behind it, the tokens that ask; query t sees keys 0 to t, so its triangle lies over the memory.

    No design asks for that: a longer memory takes the tokens' own past away.
    """
    for call in (case.call if case.call.is_cross else None, case.cross):
        if call is None or not call.follows or not call.is_cross:
            continue
        over = [(i, s) for i, s in enumerate(attention_sites(case, call)) if _top_left(s.visible())]
        rows = row_sources(case, call) if over else []
        for i, site in over:
            source = rows[i].get("key") if i < len(rows) else None
            if source is not None and _memory_first(case, call, source.source.reshape(source.shape)):
                queries, keys = recorded(site.visible()).shape[-2:]
                return Verdict(
                    "error",
                    f"of {keys} keys, {keys - queries} of a memory and then the {queries} tokens that ask, query t sees the first t + 1: the memory's, not its own past",
                    kind="causal-alignment",
                    measured="query t sees keys 0 to t",
                    allowed=f"keys 0 to {keys - queries} + t",
                    where=site.where or None,
                    example=f"{queries} tokens, a memory of {keys - queries}",
                    cause="the triangle begins at the first key; is_causal=True aligns it there when there are more keys than queries",
                    fix="torch.ones(T, S, dtype=torch.bool).tril(S - T) as attn_mask",
                )
    return None


def _top_left(visible: Tensor | None) -> bool:
    """Two keys more than queries, at least (one may be a start token), and every query t sees keys 0 to t, in every map."""
    if visible is None or visible.ndim < 2 or not 2 < visible.shape[-2] <= visible.shape[-1] - 2:
        return False
    triangle = torch.ones(visible.shape[-2:], dtype=torch.bool).tril()
    return bool((visible == triangle).all())


def _memory_first(case: Case, call: Call, keys: Tensor) -> bool:
    """Do the last keys of item 0, (..., S), come from its query tokens in order, and those before from the other stream?"""
    own, tokens = token_offset(case, call, call.query), call.sources[call.query].tokens
    line = keys.reshape(-1, keys.shape[-1])[0]
    other = line[:-tokens]
    start = token_offset(case, call, call.keys)
    length = call.sources[call.keys].batch * call.sources[call.keys].tokens
    return (
        line.numel() > tokens
        and torch.equal(line[-tokens:], torch.arange(own, own + tokens))
        and bool(((other >= start) & (other < start + length)).all())
    )
