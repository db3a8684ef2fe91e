"""Attention weights a block of rows and keys at a time, where the kernel has already said what each row sums to.

Axes: H query heads, Hkv key heads, T queries, S keys, D channels of a head; t, s: rows and keys of one block.
With the log of the row's sum at hand, w = exp(score - lse) needs no pass over the whole row: blocks stay in the processor's cache,
and what no row of a block sees is never computed. `core.tiles` is the form for calls whose sums are not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

ROWS, KEYS = 512, 1024  # 2 MiB of float32 weights
FAR = -1e4  # exp of it is 0, and 0 times it is 0: a hidden score needs no select afterwards
NOTHING = 1e30  # stands for the sum of a row that sees no key: exp(score - 1e30) is 0


class Block(NamedTuple):
    """Weights of one head on some rows and keys. `weights` and `spare` are buffers that the next block overwrites.

    Attributes:
        head: Which query head.
        rows, keys: Slices of the queries and keys.
        weights: (t, s), after softmax; hidden keys have 0.
        entropy: (t,), what these keys add to -sum(w ln w), in nats.
        spare: (t, s), free to use.
    """

    head: int
    rows: slice
    keys: slice
    weights: Tensor
    entropy: Tensor
    spare: Tensor


@torch.no_grad()
def block_tiles(
    query: Tensor, key: Tensor, lse: Tensor, *, scale: float, causal: bool, row_step: int = ROWS, key_step: int = KEYS
) -> Iterator[Block]:
    """The blocks of one sample, rows by rows, heads by heads, keys by keys. Extra memory: two blocks.

    Args:
        query, key: (H, T, D) and (Hkv, S, D), float32 or float64; query head i reads key head i // (H / Hkv).
        lse: (H, T), log of the sum of exponentials of a row's scores; not finite where the row sees no key.
        scale: What the products are multiplied by.
        causal: Query i sees keys 0 to i, as the kernel's flag means it. Blocks that no row sees are left out.
    """
    (H, T, _), S = query.shape, key.shape[1]
    group = H // key.shape[0]
    buffers = torch.empty(2, row_step * key_step, dtype=query.dtype, device=query.device)
    lse = _finite(lse.to(query.dtype))
    for start in range(0, T, row_step):
        rows = slice(start, min(start + row_step, T))
        last = min(S, rows.stop) if causal else S
        for head in range(H):
            q, sums = query[head, rows] * scale, lse[head, rows, None]
            for first in range(0, last, key_step):
                keys = slice(first, min(first + key_step, S))
                yield _block(head, rows, keys, q, key[head // group, keys], sums, causal, buffers)


def _block(
    head: int, rows: slice, keys: slice, query: Tensor, key: Tensor, lse: Tensor, causal: bool, buffers: Tensor
) -> Block:
    t, s = query.shape[0], key.shape[0]
    scores, weights = (b[: t * s].view(t, s) for b in buffers)
    torch.mm(query, key.mT, out=scores).sub_(lse)
    if causal and keys.stop - 1 > rows.start:
        place = torch.arange(rows.start, rows.stop, device=query.device)[:, None]
        scores.masked_fill_(torch.arange(keys.start, keys.stop, device=query.device)[None] > place, FAR)
    torch.exp(scores, out=weights)
    entropy = scores.mul_(weights).sum(-1).neg_()
    return Block(head, rows, keys, weights, entropy, scores)


def row_weights(query: Tensor, key: Tensor, lse: Tensor, rows: Tensor, *, scale: float, causal: bool) -> Tensor:
    """(H, R, S): whole rows of weights, for a few rows (R,) only. Arguments as in `block_tiles`."""
    key = key.repeat_interleave(query.shape[0] // key.shape[0], 0)
    scores = (query[:, rows] * scale) @ key.mT
    if causal:
        scores = scores.masked_fill(torch.arange(key.shape[1], device=key.device)[None] > rows[:, None], -torch.inf)
    return torch.exp(scores - _finite(lse[:, rows, None].to(scores.dtype)))


def _finite(lse: Tensor) -> Tensor:
    return lse.masked_fill(~lse.isfinite(), NOTHING)
