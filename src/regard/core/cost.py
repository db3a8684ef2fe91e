"""What one attention call costs, as formulas: floating-point operations, and bytes read, written and held.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head, Dv channels of a value.
A multiplication and an addition count as two operations. Softmax counts 5 per score (subtract, exp, add, divide, scale),
as in common practice; it is below 5 % of the products from D = 64 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import ShapeError

SOFTMAX_OPERATIONS = 5  # per score: scale, subtract the maximum, exp, add up, divide


@dataclass(frozen=True)
class Shape:
    """The sizes of one call.

    Attributes:
        batch, heads, kv_heads, queries, keys, head_dim, value_dim: B, H, Hkv, T, S, D, Dv.
        pairs: Query-key pairs per head that a mask leaves, for backends that skip the others; None = T * S.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    head_dim: int
    kv_heads: int | None = None
    value_dim: int | None = None
    pairs: int | None = None

    def __post_init__(self) -> None:
        if self.heads % (self.kv_heads or self.heads):
            raise ShapeError(
                f"{self.heads} query heads cannot share {self.kv_heads} key heads; num_kv_heads must divide num_heads"
            )
        if self.pairs is not None and not 0 <= self.pairs <= self.queries * self.keys:
            raise ShapeError(f"pairs is at most queries * keys = {self.queries * self.keys}, got {self.pairs}")


@dataclass(frozen=True)
class Cost:
    """Of one forward call, or of a forward and backward.

    Attributes:
        flops: Floating-point operations.
        read, written: Bytes of inputs and outputs that must cross memory at least once.
        held: Bytes beyond inputs and output that live at the peak.
        saved: Bytes kept from forward to backward, inputs and output included.
    """

    flops: int
    read: int
    written: int
    held: int
    saved: int

    @property
    def intensity(self) -> float:
        """Operations per byte moved: below the machine's ratio of the two, memory is the limit."""
        return self.flops / max(1, self.read + self.written)


def causal_pairs(queries: int, keys: int, offset: int = 0, window: int | None = None) -> int:
    """Pairs left by `causal(offset=...) & sliding_window(left=window - 1)`: the sum over queries of the keys each sees."""
    ends = (min(keys, max(0, offset + i + 1)) for i in range(queries))
    starts = (0 if window is None else min(keys, max(0, offset + i + 1 - window)) for i in range(queries))
    return sum(max(0, end - start) for start, end in zip(starts, ends, strict=True))


def fused(shape: Shape, *, itemsize: int = 4, backward: bool = False) -> Cost:
    """A fused kernel: no score is written to memory; one float32 per row (the log of the sum) is kept for backward.

    Args:
        itemsize: Bytes per element: 4 for float32, 2 for 16 bits.
        backward: Count the backward pass too: 2.5 times the products of the forward (the scores are made again).
    """
    reads, writes = _inputs(shape, itemsize), _outputs(shape, itemsize)
    rows = 4 * shape.batch * shape.heads * shape.queries
    flops = _forward_flops(shape)
    if not backward:
        return Cost(flops, reads, writes, rows, reads + writes + rows)
    flops += _products(shape) * 5 // 2
    return Cost(flops, 2 * (reads + writes), reads + writes, rows + reads, reads + writes + rows)


def open_form(shape: Shape, *, itemsize: int = 4, backward: bool = False) -> Cost:
    """Matmul, softmax, matmul: scores and weights are T x S tensors in memory, in float32 for the softmax.

    Args:
        itemsize: Bytes per element of the inputs.
        backward: Count the backward pass too: twice the products of the forward. The weights are kept for it.
    """
    full = Shape(shape.batch, shape.heads, shape.queries, shape.keys, shape.head_dim, shape.kv_heads, shape.value_dim)
    scores = shape.batch * shape.heads * shape.queries * shape.keys
    exact = max(4, itemsize)
    narrow = 0 if itemsize == exact else scores * itemsize
    reads, writes = _inputs(shape, itemsize), _outputs(shape, itemsize)
    held = 2 * scores * exact + narrow
    flops = _forward_flops(full)
    if not backward:
        return Cost(flops, reads + 2 * scores * exact, writes + 2 * scores * exact, held, reads + writes)
    flops += 2 * _products(full)
    saved = reads + writes + scores * exact + narrow
    return Cost(flops, 2 * reads + 6 * scores * exact, 2 * writes + 4 * scores * exact, held + scores * exact, saved)


def _value_dim(shape: Shape) -> int:
    return shape.head_dim if shape.value_dim is None else shape.value_dim


def _pairs(shape: Shape) -> int:
    return shape.batch * shape.heads * (shape.queries * shape.keys if shape.pairs is None else shape.pairs)


def _products(shape: Shape) -> int:
    return 2 * _pairs(shape) * (shape.head_dim + _value_dim(shape))


def _forward_flops(shape: Shape) -> int:
    return _products(shape) + SOFTMAX_OPERATIONS * _pairs(shape)


def _inputs(shape: Shape, itemsize: int) -> int:
    kv_heads = shape.heads if shape.kv_heads is None else shape.kv_heads
    query = shape.heads * shape.queries * shape.head_dim
    return itemsize * shape.batch * (query + kv_heads * shape.keys * (shape.head_dim + _value_dim(shape)))


def _outputs(shape: Shape, itemsize: int) -> int:
    return itemsize * shape.batch * shape.heads * shape.queries * _value_dim(shape)
