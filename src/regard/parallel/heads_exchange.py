"""From all heads of some tokens to some heads of all tokens, and back.

Axes: n processes, B samples, H heads, h = H / n heads of this process, t tokens of this process, T of all, D channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import ParallelError
from regard.parallel.link import Link
from regard.parallel.shards import Shards


def check_heads(heads: int, kv_heads: int, size: int) -> None:
    """Refuse a group that cannot share the heads.

    Raises:
        ParallelError: With the sizes that work.
    """
    if not _shares(heads, kv_heads, size):
        sizes = [n for n in range(1, heads + 1) if _shares(heads, kv_heads, n)]
        grouped = "" if heads == kv_heads else f" and {kv_heads} key heads"
        raise ParallelError(
            f"how='ulysses' gives each process whole heads, and {size} processes cannot share {heads} query heads{grouped}; "
            f"groups of {', '.join(map(str, sizes))} can, and how='allgather' takes any"
        )


def shared_keys(key: Tensor, value: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(B, G or n, s, D): fewer key heads than processes are repeated, one for each process."""
    repeats = size // key.shape[1] if key.shape[1] < size else 1
    if repeats == 1:
        return key, value
    return key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)


def to_heads(parts: Sequence[tuple[Tensor, Shards]], link: Link, what: str) -> list[Tensor]:
    """Several (B, H, t, D), each with its cut, to (B, h, T, D); in one exchange.

    The dtypes must be one.
    """
    outgoing: list[Tensor] = []
    for process in range(link.size):
        for x, _ in parts:
            share = x.shape[1] // link.size
            chunk = x[:, process * share : (process + 1) * share]
            outgoing.append(chunk.permute(2, 1, 0, 3).flatten())
    own = sum(x.numel() // link.size for x, _ in parts)
    widths = [x.numel() // (link.size * x.shape[2]) for x, _ in parts]  # h * B * D: numbers per token
    arriving = [[width * cut.lengths[j] for width, (_, cut) in zip(widths, parts)] for j in range(link.size)]
    rows = link.exchange(torch.cat(outgoing), [own] * link.size, [sum(sizes) for sizes in arriving], what)
    pieces = rows.split([size for sizes in arriving for size in sizes])
    joined = []
    for place, (x, cut) in enumerate(parts):
        of_one = torch.cat(pieces[place :: len(parts)])  # token after token, in the order of the processes
        share = x.shape[1] // link.size
        joined.append(of_one.view(cut.total, share, x.shape[0], x.shape[3]).permute(2, 1, 0, 3))
    return joined


def to_tokens(x: Tensor, cut: Shards, link: Link, what: str) -> Tensor:
    """(B, h, T, D) to (B, H, t, D)."""
    B, h, _, D = x.shape
    own = cut.lengths[link.rank]
    rows = link.exchange(x.permute(2, 1, 0, 3), cut.lengths, [own] * link.size, what)
    return rows.view(link.size, own, h, B, D).permute(3, 0, 2, 1, 4).reshape(B, link.size * h, own, D)


def _shares(heads: int, kv_heads: int, size: int) -> bool:
    return heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0)
