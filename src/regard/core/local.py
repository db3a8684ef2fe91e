"""Sliding windows in linear time and memory: overlapping block views on the fused kernel, with a backward of their own.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head; N heads of one stream, C columns.
Global columns are a second, narrow call of the kernel; the two are joined by their log-sum-exp, and the backward of each
part is the kernel's, given the output and log-sum-exp of the whole.
Both directions are operators of their own (`regard::local_attention`), so that compiled graphs hold them whole. Keys and
values that are not finite count as 0, block by block, so that no copy of all of them is held; `core.finite` marks who saw them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.backends import kernel
from regard.core.local_blocks import GROUP, Piece, added_mask, block_rows, pieces
from regard.core.local_form import between
from regard.core.transform import wrapped


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keep: Tensor | None,
    bias: Tensor | None,
    left: int,
    right: int,
    offset: int,
    scale: float,
    columns: Sequence[int],
    outer_left: int | None,
    outer_right: int | None,
) -> tuple[Tensor, Tensor]:
    """Attention of a window, on the CPU.

    Args:
        query, key, value: (B, H, T, D), (B, Hkv, S, D) twice; the channels next to each other.
        keep: (B or 1, S) bool: keys that are seen at all; None for all.
        bias: 4-D, broadcastable to (B, H, T, S), without a gradient; None for none.
        left, right, offset: Query i sees keys from offset + i - left to offset + i + right.
        columns: Keys that every query sees besides, within `outer_left` and `outer_right` of it; None is unbounded.

    Returns:
        output (B, H, T, D), the dtype of query, and lse (B, H, T), float32 or float64; 0 in rows that see nothing.
    """
    work = _Work(query, key, value, keep, bias, left, right, offset, scale, tuple(columns), outer_left, outer_right)
    output, lse = torch.zeros_like(query), query.new_zeros(query.shape[:3], dtype=work.exact)
    for stream in work.streams(output, lse):
        out, total = stream.output, stream.lse
        if work.columns:
            total.fill_(-torch.inf)
        for piece in work.pieces(stream):
            added = work.added(piece, stream)
            part, logs = kernel.forward(*stream.blocks(piece), causal=False, added=added, scale=scale)
            piece.queries(out).copy_(part)
            piece.queries(total).copy_(_with_dead(logs, added) if work.columns else logs)
        for rows in work.row_chunks(stream):
            added = work.added_columns(rows, stream)
            part, logs = kernel.forward(*stream.narrow(rows, work.columns), causal=False, added=added, scale=scale)
            _join(out[:, rows], total[:, rows], part[:, 0], _with_dead(logs, added)[:, 0])
    return output, lse


def _attend_backward(
    upstream: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    keep: Tensor | None,
    bias: Tensor | None,
    left: int,
    right: int,
    offset: int,
    scale: float,
    columns: Sequence[int],
    outer_left: int | None,
    outer_right: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value of `_attend`; sums over overlaps are in float32 or float64."""
    work = _Work(query, key, value, keep, bias, left, right, offset, scale, tuple(columns), outer_left, outer_right)
    upstream = upstream if upstream.stride(3) == 1 else upstream.contiguous()
    grads = [x.new_zeros(x.shape, dtype=work.exact) for x in (query, key, value)]
    for stream in work.streams(output, lse, upstream, *grads):
        for piece in work.pieces(stream):
            given = [piece.queries(x) for x in (stream.upstream, stream.output, stream.lse)]
            q, k, v = stream.blocks(piece)
            added = work.added(piece, stream)
            parts = kernel.backward(given[0], q, k, v, *given[1:], causal=False, added=added, scale=scale)
            piece.queries(stream.grad_query).copy_(parts[0])
            piece.add_around(stream.grad_key, parts[1])
            piece.add_around(stream.grad_value, parts[2])
        for rows in work.row_chunks(stream):
            given = [x[:, None, rows] for x in (stream.upstream, stream.output, stream.lse)]
            q, k, v = stream.narrow(rows, work.columns)
            added = work.added_columns(rows, stream)
            parts = kernel.backward(given[0], q, k, v, *given[1:], causal=False, added=added, scale=scale)
            stream.grad_query[:, rows] += parts[0][:, 0]
            index = torch.tensor(work.columns, device=query.device)
            stream.grad_key.index_add_(1, index, parts[1][:, 0].to(work.exact))
            stream.grad_value.index_add_(1, index, parts[2][:, 0].to(work.exact))
    return tuple(grad.to(query.dtype) for grad in grads)  # pyright: ignore[reportReturnType]


def _shapes(query, key, value, *rest):
    exact = torch.promote_types(query.dtype, torch.float32)
    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=exact)


def _shapes_backward(upstream, query, key, value, *rest):
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


_operator = torch.library.custom_op("regard::local_attention", _attend, mutates_args=())
_operator.register_fake(_shapes)
_operator_backward = torch.library.custom_op("regard::local_attention_backward", _attend_backward, mutates_args=())
_operator_backward.register_fake(_shapes_backward)
_traced = torch.library.custom_op("regard::local_attention_traced", _attend, mutates_args=())
_traced.register_fake(_shapes)


class _Local(torch.autograd.Function):
    """The operators with a gradient. A function transform goes through what they do, as it cannot go through them."""

    @staticmethod
    def forward(transformed, *given):
        return (_attend if transformed else _operator)(*given)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.run = _attend_backward if inputs[0] else _operator_backward
        query, key, value, keep, bias, *ctx.window = inputs[1:]
        ctx.save_for_backward(query, key, value, *output, keep, bias)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, *upstream):
        return (None, *ctx.run(upstream[0], *ctx.saved_tensors, *ctx.window), *(None,) * 9)


def _setup_traced(ctx, inputs, output) -> None:
    _Local.setup_context(ctx, (False, *inputs), output)


def _backward_traced(ctx, *upstream):
    return _Local.backward(ctx, *upstream)[1:]


_traced.register_autograd(_backward_traced, setup_context=_setup_traced)


def attend_locally(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    keep: Tensor | None,
    bias: Tensor | None,
    left: int,
    right: int,
    offset: int,
    scale: float,
    columns: Sequence[int] = (),
    outer: tuple[int | None, int | None] = (None, None),
) -> Tensor:
    """The output of `_attend`, with the gradients of query, key and value."""
    given = (query, key, value, keep, bias, left, right, offset, scale, tuple(columns), *outer)
    if torch.compiler.is_compiling():
        return _traced(*given)[0]
    return _Local.apply(any(wrapped(x) for x in given[:3]), *given)[0]  # pyright: ignore


@dataclass
class _Stream:
    """The heads that go through the kernel together: (N, T or S, D), and (N, T) for lse."""

    sample: int
    heads: slice
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    lse: Tensor
    upstream: Tensor
    grad_query: Tensor
    grad_key: Tensor
    grad_value: Tensor

    def blocks(self, piece: Piece) -> tuple[Tensor, Tensor, Tensor]:
        """(N, M, R, D), and (N, M, K, D) twice."""
        reach = slice(piece.key, piece.key + (piece.blocks - 1) * piece.rows + piece.keys)
        moved = replace(piece, key=0)
        key, value = (moved.around(_finite(x[:, reach])) for x in (self.key, self.value))
        return piece.queries(self.query), key, value

    def narrow(self, rows: slice, columns: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """(N, 1, t, D) and (N, 1, C, D) twice: some rows, and the columns."""
        index = torch.tensor(columns, device=self.key.device)
        key, value = (_finite(x[:, None, index]) for x in (self.key, self.value))
        return self.query[:, None, rows], key, value


@dataclass
class _Work:
    """What the two directions share: which streams, which pieces, which masks."""

    query: Tensor
    key: Tensor
    value: Tensor
    keep: Tensor | None
    bias: Tensor | None
    left: int
    right: int
    offset: int
    scale: float
    columns: tuple[int, ...]
    outer_left: int | None
    outer_right: int | None

    def __post_init__(self) -> None:
        self.exact = torch.promote_types(self.query.dtype, torch.float32)
        self.columns = tuple(column for column in self.columns if column < self.key.shape[2])
        self._masks: dict[tuple[int, int, int], Tensor] = {}
        if self.bias is not None:
            self.bias = self.bias.expand(*self.query.shape[:3], self.key.shape[2])

    def streams(self, output: Tensor, lse: Tensor, *more: Tensor) -> Iterator[_Stream]:
        """One of all heads where they share a mask and lie one after the other, else one per sample and head of a group."""
        queries = [self.query, output, lse, *(more[:1] or (output,)), *(more[1:2] or (output,))]
        keys = [self.key, self.value, *(more[2:] or (self.key, self.value))]
        group = self.query.shape[1] // self.key.shape[1]
        shared = self.keep is None and self.bias is None and group == 1
        if shared and all(_flat(x) for x in (*queries, *keys)):
            queries, keys = [x.flatten(0, 1)[None] for x in queries], [x.flatten(0, 1)[None] for x in keys]
        for sample in range(queries[0].shape[0]):
            for first in range(group):
                heads = slice(first, None, group)
                query, out, logs, upstream, grad = (x[sample, heads] for x in queries)
                key, value, grad_key, grad_value = (x[sample] for x in keys)
                yield _Stream(sample, heads, query, key, value, out, logs, upstream, grad, grad_key, grad_value)

    def pieces(self, stream: _Stream) -> list[Piece]:
        N, T, D = stream.query.shape
        rows = block_rows(self.left, self.right, T)
        keys = rows + self.left + self.right
        written = 1 if self.keep is None and self.bias is None else rows * (1 if self.bias is None else N)
        size = max(1, GROUP // max(N * keys * D, written * keys))
        return pieces(T, stream.key.shape[1], self.left, self.right, self.offset, size)

    def added(self, piece: Piece, stream: _Stream) -> Tensor:
        """(N or 1, M or 1, R, K); made once where it is the same for every stream and place."""
        keep, bias = self._of(stream)
        if keep is not None or bias is not None:
            return added_mask(piece, self.left, self.right, self.exact, stream.query.device, keep, bias)
        kind = (piece.rows, piece.keys, piece.first)
        if kind not in self._masks:
            self._masks[kind] = added_mask(piece, self.left, self.right, self.exact, stream.query.device, None, None)
        return self._masks[kind]

    def row_chunks(self, stream: _Stream) -> list[slice]:
        """Rows that go to the columns together; none without columns."""
        N, T, D = stream.query.shape
        size = max(1, GROUP // (N * max(D, len(self.columns))))
        return [slice(start, min(start + size, T)) for start in range(0, T if self.columns else 0, size)]

    def added_columns(self, rows: slice, stream: _Stream) -> Tensor:
        """(N or 1, 1, t, C): -inf where the window has the pair already, or where nobody sees it."""
        keep, bias = self._of(stream)
        columns = torch.tensor(self.columns, device=stream.query.device)
        position = torch.arange(rows.start, rows.stop, device=columns.device)[:, None] + self.offset
        distance = columns - position
        attend = ~between(distance, self.left, self.right) & between(distance, self.outer_left, self.outer_right)
        attend = attend if keep is None else attend & keep[columns]
        if bias is None:
            return (1.0 - attend.to(self.exact).reciprocal())[None, None]
        return torch.where(attend, bias[:, rows][:, :, columns].to(self.exact), float("-inf"))[:, None]

    def _of(self, stream: _Stream) -> tuple[Tensor | None, Tensor | None]:
        """The key mask (S,) and the bias (N, T, S) of a stream."""
        keep = None if self.keep is None else self.keep[stream.sample if self.keep.shape[0] > 1 else 0]
        return keep, None if self.bias is None else self.bias[stream.sample, stream.heads]


def _flat(x: Tensor) -> bool:
    """Whether samples and heads are one axis in memory."""
    return x.shape[0] == 1 or x.shape[1] == 1 or x.stride(0) == x.shape[1] * x.stride(1)


def _finite(x: Tensor) -> Tensor:
    return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


def _with_dead(lse: Tensor, added: Tensor) -> Tensor:
    """The kernel's lse with -inf, where it has 0, for rows that see nothing."""
    return lse.masked_fill(~(added > float("-inf")).any(dim=-1), float("-inf"))


def _join(output: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> None:
    """Make `output` (N, t, D) and `lse` (N, t) of some keys those of these keys and others."""
    both = torch.logaddexp(lse, other_lse)
    both = both.masked_fill(both == float("-inf"), 0.0)
    mine, theirs = (lse - both).exp()[..., None], (other_lse - both).exp()[..., None]
    output.copy_(output * mine + other * theirs)
    lse.copy_(both)
