"""Attention over a sequence that is cut among processes: by heads ("ulysses"), or by fetching the keys ("allgather").

Axes: B samples, H query heads, G key heads, t queries and s keys of this process, T and S of all, D and Dv channels.
"ulysses": each process gets all tokens of H / n heads, attends, and sends the rows back (Jacobs et al. 2023,
arXiv:2309.14509). "allgather": queries stay, and each process fetches the keys and values that its rows can see: all
of them, the earlier ones under `causal()`, a halo under a window.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.attention import attention as ours
from regard.core.errors import ParallelError, ShapeError
from regard.core.mask.expression import Mask
from regard.parallel.heads_exchange import check_heads, shared_keys, to_heads, to_tokens
from regard.parallel.layer import SequenceParallelLayer
from regard.parallel.link import Link
from regard.parallel.mask_parts import Whole
from regard.parallel.shards import Shards, check_lengths

How = Literal["ulysses", "allgather"]
DTYPES = {dtype: i for i, dtype in enumerate((torch.float32, torch.float64, torch.bfloat16, torch.float16))}


class SequenceParallel:
    """`attention` for processes that each hold a part of every sequence. Made by `sequence_parallel`.

    Called as `regard.attention`, with the part of this process: query (B, H, t, D), key (B, G, s, D), value
    (B, G, s, Dv); the result is (B, H, t, Dv). The mask is that of the whole sequence, the same in every process;
    a bias has this process's rows and all keys, (B or 1, H or 1, t, S).

    Attributes:
        link: The processes; `link.sent` counts the bytes sent to others.
    """

    def __init__(self, attention: Any, link: Link, how: How, lengths: Sequence[int] | None):
        self._attention, self.link, self.how, self._lengths = attention, link, how, lengths

    def shards(self, tokens: int, device: torch.device | str = "cpu") -> Shards:
        """How a sequence is cut of which this process holds so many tokens; every process must ask."""
        return self._agree(tokens, tokens, (), torch.device(device))[0]

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        sink: Tensor | None = None,
        **scores: Any,
    ) -> Tensor:
        for name, x in (("query", query), ("key", key), ("value", value)):
            if x.ndim != 4:
                raise ShapeError(f"{name} must be (B, H, t, D), this process's part, got {tuple(x.shape)}")
        said = zlib.crc32(repr((mask if isinstance(mask, Mask) else type(mask), sorted(scores.items()))).encode())
        shapes = (*query.shape[:2], query.shape[3], key.shape[1], value.shape[3], DTYPES.get(query.dtype, -1), said)
        queries, keys = self._agree(query.shape[2], key.shape[2], shapes, query.device)
        sizes = (query.shape[0], query.shape[1], queries.total, keys.total)
        whole = Whole.of(mask, sizes, query.device)
        if bias is not None and (bias.ndim != 4 or tuple(bias.shape[2:]) != (query.shape[2], keys.total)):
            raise ShapeError(
                f"bias must have this process's {query.shape[2]} rows and all {keys.total} keys, (B or 1, H or 1, "
                f"{query.shape[2]}, {keys.total}), got {tuple(bias.shape)}"
            )
        if self.link.size == 1:
            return self._attention(query, key, value, mask=whole.mask, bias=bias, sink=sink, **scores)
        way = self._by_heads if self.how == "ulysses" else self._by_keys
        return way((query, key, value), (queries, keys), whole, bias, sink, scores)

    def _by_heads(self, tensors: Any, shards: Any, whole: Whole, bias: Tensor | None, sink: Any, scores: Any) -> Tensor:
        (query, key, value), (queries, keys), link = tensors, shards, self.link
        H = query.shape[1]
        check_heads(H, key.shape[1], link.size)
        parts = [(query, queries), *((x, keys) for x in shared_keys(key, value, link.size))]
        if bias is not None:
            spread = bias if bias.shape[1] > 1 else bias.expand(-1, link.size, -1, -1)
            parts.append((spread, queries))
        query, key, value, *rest = to_heads(parts, link, "queries, keys and values")
        first = link.rank * (H // link.size)
        last = first + H // link.size
        output = self._attention(
            query,
            key,
            value,
            mask=whole.heads(first, last),
            bias=rest[0] if rest else None,
            sink=None if sink is None else sink[first:last],
            **scores,
        )
        return to_tokens(output, queries, link, "outputs")

    def _by_keys(self, tensors: Any, shards: Any, whole: Whole, bias: Tensor | None, sink: Any, scores: Any) -> Tensor:
        (query, key, value), (queries, keys), link = tensors, shards, self.link
        needed = [whole.reach(span) for span in queries.spans]
        first, last = needed[link.rank]
        start = keys.span[0]
        together = torch.cat([key, value], dim=-1).permute(2, 0, 1, 3)  # (s, B, G, D + Dv)
        for_each = [_overlap(keys.span, span) for span in needed]
        mine = [_overlap(span, (first, last)) for span in keys.spans]
        rows = torch.cat([together[a - start : b - start] for a, b in for_each])
        fetched = link.exchange(rows, [b - a for a, b in for_each], [b - a for a, b in mine], "keys and values")
        key, value = fetched.permute(1, 2, 0, 3).split([key.shape[3], value.shape[3]], dim=-1)
        bias = None if bias is None else bias[..., first:last]
        mask = whole.rows(queries.span, (first, last))
        return self._attention(query, key, value, mask=mask, bias=bias, sink=sink, **scores)

    def _agree(self, t: int, s: int, shapes: tuple[int, ...], device: torch.device) -> tuple[Shards, Shards]:
        """How queries and keys are cut; refuses processes that were called differently."""
        link = self.link
        if self._lengths is not None:
            cut = check_lengths(self._lengths, t, link.rank, link.size, "queries")
            return cut, check_lengths(self._lengths, s, link.rank, link.size, "keys")
        found = link.numbers((t, s, *shapes), device, "sizes")
        names = ("B", "H", "D", "G", "Dv", "dtype", "mask, scale, softcap or dropout")
        for place, name in enumerate(names[: len(shapes)], start=2):
            values = [row[place] for row in found]
            if len(set(values)) > 1:
                shown = "" if name.startswith(("mask", "dtype")) else f": {values}"
                raise ParallelError(f"the {link.size} processes were called with different {name}{shown}")
        cut = [check_lengths([row[i] for row in found], (t, s)[i], link.rank, link.size, "tokens") for i in (0, 1)]
        return cut[0], cut[1]


def sequence_parallel(
    attention: Any = ours,
    group: Any = None,
    how: How = "allgather",
    *,
    lengths: Sequence[int] | None = None,
    timeout: float | None = None,
) -> Any:
    """Attention over a sequence of which each process of a group holds a part.

    Args:
        attention: A function with the arguments of `regard.attention`, or a layer with the projections of
            `regard.nn.MultiHeadAttention` (self-attention).
        group: A process group, a one-dimensional device mesh, or None for all processes.
        how: "ulysses" needs heads that the number of processes divides; "allgather" takes any.
        lengths: Tokens per process, where they are known and stay; None: asked for in every call, a few bytes, with which
            calls that do not go together are refused instead of hanging.
        timeout: Seconds after which a process that waits for others raises; None: the timeout of the group.

    Returns:
        For a function, one with the same arguments (`SequenceParallel`); for a layer, a module (B, t, E) -> (B, t, E).

    Raises:
        ParallelError: No process group, or processes, heads and sizes that do not go together.
    """
    if how not in ("ulysses", "allgather"):
        raise ParallelError(f"how must be 'ulysses' or 'allgather', got {how!r}")
    link = Link(group, timeout)
    if isinstance(attention, nn.Module):
        return SequenceParallelLayer(attention, SequenceParallel(ours, link, how, lengths))
    return SequenceParallel(attention, link, how, lengths)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The common part of two ranges, empty at the start of the first where there is none."""
    first, last = max(one[0], other[0]), min(one[1], other[1])
    return (first, last) if first < last else (one[0], one[0])
