"""What a T x S attention map says, without the map: entropy, largest weight, mass per key, top keys. Exact, O(T) memory.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels of a head, Dv channels of a value.
Rows are computed a tile at a time in float32 (`core.tiles`) and thrown away; nothing of size T x S is ever held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.attention import attention
from regard.core.backends import kernel
from regard.core.block_tiles import block_tiles
from regard.core.call import Call, prepare
from regard.core.errors import ShapeError
from regard.core.mask.expression import Mask
from regard.core.three_axes import is_three, lifted
from regard.core.tiles import TILE_BYTES, Tile, row_tiles

LONG, LONG_CAUSAL = 1024, 8192  # queries and keys from which blocks are faster than whole rows (measured)
SIDE, SIDE_CAUSAL = 1024, 512  # of a block: small where the half of those on the diagonal is computed for nothing


@dataclass(frozen=True)
class AttentionStatistics:
    """Statistics of one attention call; all but `output` are float32 (float64 for float64 inputs) and carry no gradient.

    Attributes:
        output: (B, H, T, Dv), as `attention` returns it.
        lse: (B, H, T), log of the sum of exponentials of the scores, the sink included; -inf where no key is seen.
        entropy: (B, H, T), -sum(w ln w) over the keys, in nats; 0 where no key is seen. With a sink, its share is left out.
        max: (B, H, T), the largest weight; 0 where no key is seen.
        received: (B, H, S), the sum of the weights that each key gets.
        top_values, top_indices: (B, H, T, top), largest first; keys that are not seen have value 0. None for top=0.
    """

    output: Tensor
    lse: Tensor
    entropy: Tensor
    max: Tensor
    received: Tensor
    top_values: Tensor | None = None
    top_indices: Tensor | None = None


def attention_statistics(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    top: int = 0,
    tile_bytes: int = TILE_BYTES,
) -> AttentionStatistics:
    """The output of `attention`, and statistics of its weights that cost no T x S memory.

    Args:
        query, key, value, mask, bias, scale, softcap, sink: As in `attention`.
        top: How many of the largest weights of each row to return.
        tile_bytes: Memory for the scores that are held at once.

    Raises:
        ShapeError: `top` is negative or larger than S; and what `attention` raises.
    """
    given = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "sink": sink}
    if is_three(query, key, value):
        query, key, value, given = lifted(query, key, value, given)
        four = attention_statistics(query, key, value, **given, top=top, tile_bytes=tile_bytes)
        return replace(four, **{name: x[:, 0] for name, x in vars(four).items() if x is not None})
    call = prepare(query, key, value, **given)
    B, H, T, S = call.sizes
    if not 0 <= top <= S:
        raise ShapeError(f"top={top} of {S} keys; give a number from 0 to {S}")
    told = _in_blocks(call) if top == 0 else None
    if told is not None:
        return told
    exact = torch.promote_types(query.dtype, torch.float32)
    empty = {"dtype": exact, "device": query.device}
    lse = torch.full((B, H, T), -torch.inf, **empty)
    entropy, largest, received = (
        torch.zeros(B, H, T, **empty),
        torch.zeros(B, H, T, **empty),
        torch.zeros(B, H, S, **empty),
    )
    values = torch.zeros(B, H, T, top, **empty) if top else None
    indices = torch.zeros(B, H, T, top, dtype=torch.int64, device=query.device) if top else None
    for tile in row_tiles(call, tile_bytes=tile_bytes):
        at = (tile.sample, tile.heads, tile.rows)
        lse[at], entropy[at], largest[at] = tile.lse, tile.entropy, tile.largest
        received[tile.sample, tile.heads, tile.keys] += tile.weights.sum(1)
        if values is not None and indices is not None:
            values[at], indices[at] = _top(tile, top, call)
    output = attention(query, key, value, **given)
    return AttentionStatistics(output, lse, entropy, largest, received, values, indices)


def _in_blocks(call: Call) -> AttentionStatistics | None:
    """The same from the row sums of torch's fused kernel, for long calls without a mask, or causal; None where that cannot be.

    One pass over the scores is left then, in blocks that stay in the cache. What is not finite goes the other way.
    """
    B, H, T, S = call.sizes
    causal = call.mask is not None
    form = call.structure
    if causal and not (form.causal and form.plain and T == S and form.key_mask(call.places()) is None):
        return None
    beside = (call.bias, call.softcap, call.sink)
    if (
        any(x is not None for x in beside)
        or min(T, S) < (LONG_CAUSAL if causal else LONG)
        or call.query.dtype not in (torch.float32, torch.float64)
    ):
        return None
    if (
        call.query.shape[3] != call.value.shape[3]
        or torch.is_autocast_enabled("cpu")
        or kernel.refuses(call) is not None
    ):
        return None
    parts = [x if x.stride(3) == 1 else x.contiguous() for x in (call.query, call.key, call.value)]
    output, lse = kernel.forward(*parts, causal=causal, added=None, scale=call.scale)
    if not bool(output.isfinite().all()) or not bool(lse.isfinite().all()):
        return None
    lse = lse.detach()
    entropy, largest, received = (x.new_zeros(B, H, n) for x, n in ((lse, T), (lse, T), (lse, S)))
    side = SIDE_CAUSAL if causal else SIDE
    ones = lse.new_ones(side)
    for b in range(B):
        query, key = call.query[b].detach(), call.key[b].detach()
        for block in block_tiles(query, key, lse[b], scale=call.scale, causal=causal, row_step=side, key_step=side):
            at = (b, block.head, block.rows)
            entropy[at] += block.entropy
            torch.maximum(largest[at], block.weights.amax(-1), out=largest[at])
            received[b, block.head, block.keys] += block.weights.mT @ ones[: block.weights.shape[0]]
    return AttentionStatistics(output, lse, entropy, largest, received)


def _top(tile: Tile, top: int, call: Call) -> tuple[Tensor, Tensor]:
    """The largest weights of a tile's rows and where they are; filled up with other keys, at weight 0, where few are seen."""
    weights, first = tile.weights, tile.keys.start
    if weights.shape[-1] < top:
        spread = weights.new_zeros(*weights.shape[:2], call.sizes[3])
        spread[..., tile.keys] = weights
        weights, first = spread, 0
    values, indices = weights.topk(top, dim=-1)
    return values, indices + first
