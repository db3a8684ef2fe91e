"""Exact attention a tile of rows at a time, forward and backward: what no fused kernel takes, in memory linear in the length.

Axes: B samples, H query heads, Hkv key heads, G = H / Hkv, T queries, S keys, D channels of a head; h, g, t, s: those of a tile.
Weights are computed again in the backward from the log-sum-exp of each row, so nothing of size T x S is kept but the
bias that was given and its gradient. Source: Rabe and Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.backends import kernel
from regard.core.call import Call

TILE = 1 << 20  # scores of a tile: large enough for the matrix product, small enough for the cache
FEWEST = 16  # rows of a tile, however many keys there are
LEVELS = 1 << 16  # of the random numbers that decide what is dropped


def attend_in_tiles(call: Call) -> Tensor:
    """(B, H, T, Dv), with the gradients of query, key, value, bias and sink; the values must be as wide as the keys."""
    seed = 0 if call.dropout == 0.0 else int(torch.randint(0, 1 << 62, ()))  # the one draw from torch's generator
    return _Tiled.apply(call, seed, call.query, call.key, call.value, call.bias, call.sink)  # pyright: ignore[reportReturnType]


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call: Call, seed: int, query, key, value, bias, sink):
        work = _Work(call, seed)
        output, lse = torch.zeros_like(query), query.new_zeros(query.shape[:3], dtype=work.exact)
        for tile in work.tiles():
            if call.softcap is None and sink is None and call.dropout == 0.0 and kernel.refuses(call) is None:
                part, total = work.fused(tile)
            else:
                part, total = work.open(tile)
            output[tile.at].copy_(part)
            lse[tile.at].copy_(total)
        ctx.call, ctx.seed = replace(call, query=None, key=None, value=None, bias=None, sink=None, _memo={}), seed
        ctx.save_for_backward(query, key, value, bias, sink, output, lse)
        return output

    @staticmethod
    def backward(ctx, upstream):
        query, key, value, bias, sink, output, lse = ctx.saved_tensors
        call = replace(ctx.call, query=query, key=key, value=value, bias=bias, sink=sink)
        wanted = ctx.needs_input_grad[2:]
        grads = _gradients(_Work(call, ctx.seed), upstream, output, lse, wanted[3])
        given = (query, key, value, bias, sink)
        fitting = [g.to(x.dtype) if g is not None and want else None for g, x, want in zip(grads, given, wanted)]
        return None, None, *fitting


@dataclass(frozen=True)
class _Tile:
    """Some rows of some heads of one sample, and the keys that they may see."""

    number: int
    sample: int
    heads: slice  # of query
    shared: slice  # of key and value
    rows: slice
    keys: slice
    attend: Tensor | None  # (h or 1, t, s)

    @property
    def at(self) -> tuple[int, slice, slice]:
        return self.sample, self.heads, self.rows

    @property
    def from_keys(self) -> tuple[int, slice, slice]:
        return self.sample, self.shared, self.keys


class _Work:
    """What both directions share: the tiles of a call, and the scores and weights of one."""

    def __init__(self, call: Call, seed: int):
        self.call, self.seed = call, seed
        self.exact = torch.promote_types(call.query.dtype, torch.float32)

    def tiles(self) -> Iterator[_Tile]:
        """All tiles with any key, sample by sample."""
        B, H, T, S = self.call.sizes
        G = self.call.group
        rows = min(T, max(FEWEST, TILE // max(1, G * S)))
        shared = max(1, min(H // G, TILE // (rows * G * S))) if S else 1
        number = 0
        for start in range(0, T, rows):
            chosen = slice(start, min(start + rows, T))
            keys = self._reach(chosen)
            if keys.start >= keys.stop:
                continue
            seen = self._attend(chosen)
            for sample in range(B):
                for first in range(0, H // G, shared):
                    part = slice(first, min(first + shared, H // G))
                    heads = slice(part.start * G, part.stop * G)
                    attend = None if seen is None else seen[sample if seen.shape[0] > 1 else 0, ..., keys]
                    attend = attend[heads] if attend is not None and attend.shape[0] > 1 else attend
                    yield _Tile(number, sample, heads, part, chosen, keys, attend)
                    number += 1

    def _reach(self, rows: slice) -> slice:
        """The keys that a band leaves to these rows."""
        form, S = self.call.structure, self.call.sizes[3]
        if not isinstance(form.offset, int):
            return slice(0, S)
        first = 0 if form.left is None else max(0, rows.start + form.offset - form.left)
        end = S if form.right is None else min(S, rows.stop + form.offset + form.right)
        return slice(first, end)

    def _attend(self, rows: slice) -> Tensor | None:
        """(B or 1, H or 1, t, S) bool, of some rows."""
        if self.call.mask is None:
            return None
        if "attend" in self.call._memo:
            attend = self.call.attend()
            assert attend is not None
            return (attend if attend.shape[2] == 1 else attend[:, :, rows]).expand(-1, -1, -1, self.call.sizes[3])
        wanted = torch.arange(rows.start, rows.stop, device=self.call.query.device)
        attend = replace(self.call, rows=wanted, _memo={}).attend()
        return None if attend is None else attend.expand(-1, -1, -1, self.call.sizes[3])

    def bias(self, tile: _Tile) -> Tensor | None:
        """(h or 1, t or 1, s or 1), a view."""
        return None if self.call.bias is None else _cut(self.call.bias.detach(), tile)

    def added(self, tile: _Tile) -> Tensor | None:
        """What is added to the scores: the bias, -inf where hidden."""
        bias = self.bias(tile)
        bias = bias if bias is None or self.exact == torch.float32 == bias.dtype else bias.to(self.exact)
        if tile.attend is None or bias is None:
            return bias if tile.attend is None else 1.0 - tile.attend.to(self.exact).reciprocal()
        return torch.where(tile.attend, bias, float("-inf"))

    def fused(self, tile: _Tile) -> tuple[Tensor, Tensor]:
        """Output (h, t, D) and lse (h, t) by the kernel."""
        call, added = self.call, self.added(tile)
        query, key, value = call.query[tile.at], call.key[tile.from_keys], call.value[tile.from_keys]
        added = None if added is None else added[None]
        part, lse = kernel.forward(query[None], key[None], value[None], causal=False, added=added, scale=call.scale)
        return part[0], lse[0]

    def open(self, tile: _Tile) -> tuple[Tensor, Tensor]:
        """Output (h, t, D) and lse (h, t), step by step."""
        scores, _ = self.scores(tile)
        top = scores.amax(dim=-1, keepdim=True)
        sink = None if self.call.sink is None else self.call.sink[tile.heads].to(self.exact)[:, None, None]
        top = top if sink is None else torch.maximum(top, sink)
        top = top.masked_fill(top == float("-inf"), 0.0)
        weights = scores.sub_(top).exp_()
        total = weights.sum(dim=-1, keepdim=True)
        total = total if sink is None else total + (sink - top).exp()
        lse = torch.where(total > 0, top + total.log(), 0.0)
        weights.div_(torch.where(total > 0, total, 1.0))
        weights = self.dropped(tile, weights)
        value = self.call.value[tile.from_keys]
        return _by_group(weights.to(value.dtype), value), lse[..., 0]

    def scores(self, tile: _Tile) -> tuple[Tensor, Tensor | None]:
        """(h, t, s), scaled, capped, with bias and mask, in a fresh tensor; and the tanh of the cap."""
        call = self.call
        query, key = call.query[tile.at].to(self.exact), call.key[tile.from_keys].to(self.exact)  # as exact as the lse
        scores = _by_group(query * call.scale, key.mT)
        bent = None
        if call.softcap is not None:
            bent = scores.div_(call.softcap).tanh_()
            scores = bent * call.softcap
        added = self.added(tile)
        return scores if added is None else scores.add_(added), bent

    def dropped(self, tile: _Tile, weights: Tensor) -> Tensor:
        """Weights, or their gradient, with what the tile drops set to 0 and the rest made larger; in place."""
        if self.call.dropout == 0.0:
            return weights
        generator = torch.Generator(weights.device).manual_seed((self.seed + tile.number) % (1 << 63))
        numbers = torch.empty(-(-weights.numel() // 4), dtype=torch.int64, device=weights.device)
        numbers.random_(-(1 << 63), None, generator=generator)  # four 16-bit numbers in each
        limit = round(self.call.dropout * LEVELS)
        keep = numbers.view(torch.int16)[: weights.numel()].view(weights.shape) >= limit - LEVELS // 2
        if limit >= LEVELS:
            return weights.zero_()
        return weights.mul_(keep).mul_(LEVELS / (LEVELS - limit))


def _gradients(work: _Work, upstream: Tensor, output: Tensor, lse: Tensor, of_bias: bool) -> list[Tensor | None]:
    """Of query, key, value, bias and sink."""
    call, exact = work.call, work.exact
    of_query, of_key, of_value = (x.new_zeros(x.shape, dtype=exact) for x in (call.query, call.key, call.value))
    table = call.bias.new_zeros(call.bias.shape, dtype=exact) if call.bias is not None and of_bias else None
    delta = (upstream.to(exact) * output.to(exact)).sum(dim=-1)  # (B, H, T): sum over keys of weight times its gradient
    for tile in work.tiles():
        query, key, value = call.query[tile.at], call.key[tile.from_keys], call.value[tile.from_keys]
        given = upstream[tile.at]
        scores, bent = work.scores(tile)
        weights = scores.sub_(lse[tile.at][..., None]).exp_()
        of_weights = _by_group(given, value.mT).to(exact)
        if call.dropout > 0.0:
            of_weights = work.dropped(tile, of_weights)
            used = work.dropped(tile, weights.clone())
        else:
            used = weights
        _add_transposed(of_value[tile.from_keys], used.to(value.dtype), given)
        if given.dtype != exact:  # the output was rounded to 16 bits, the weights were not
            delta[tile.at] = (weights * of_weights).sum(dim=-1)
        of_scores = of_weights.sub_(delta[tile.at][..., None]).mul_(weights)
        if table is not None:
            part = _cut(table, tile)
            part += of_scores.sum_to_size(part.shape)
        if bent is not None:
            of_scores = of_scores.mul_(bent.mul_(bent).neg_().add_(1.0))
        if query.dtype == exact:  # scaling the narrow factors is cheaper, and would round them in 16 bits
            query, key = query * call.scale, key * call.scale
        else:
            of_scores = of_scores.mul_(call.scale).to(query.dtype)
        of_query[tile.at] = _by_group(of_scores, key)
        _add_transposed(of_key[tile.from_keys], of_scores, query)
    of_sink = None
    if call.sink is not None:  # d(output) / d(sink) = -weight of the sink * output
        share = torch.exp(call.sink.to(exact)[None, :, None] - lse)
        of_sink = -(share * delta).sum(dim=(0, 2))
    return [of_query, of_key, of_value, table, of_sink]


def _cut(table: Tensor, tile: _Tile) -> Tensor:
    """The tile's part of a tensor that broadcasts to (B, H, T, S), a view (h or 1, t or 1, s or 1)."""
    part = table[tile.sample if table.shape[0] > 1 else 0]
    part = part[tile.heads] if part.shape[0] > 1 else part
    part = part[:, tile.rows] if part.shape[1] > 1 else part
    return part[..., tile.keys] if part.shape[2] > 1 else part


def _by_group(left: Tensor, right: Tensor) -> Tensor:
    """(h, t, m) times (h / G, m, n): heads of a group become rows."""
    h, t, m = left.shape
    return torch.bmm(left.reshape(right.shape[0], -1, m), right).view(h, t, right.shape[2])


def _add_transposed(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add (h, t, s) transposed times (h, t, n), summed over the heads of a group, to (h / G, s, n)."""
    shared, s, n = total.shape
    left, right = left.reshape(shared, -1, s).mT, right.reshape(shared, -1, n)
    if left.dtype == total.dtype:
        total.baddbmm_(left, right)
    else:
        total.add_(torch.bmm(left, right))
