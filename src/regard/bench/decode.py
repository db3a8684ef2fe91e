"""One token at a time with fewer key heads than query heads: a preallocated cache against concatenation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench.line import Line, Pair, Work, compare
from regard.bench.timing import forward, normal
from regard.core.attention import attention

WAYS = (("torch.cat and enable_gqa", 2.5), ("torch.cat and repeat", 12.0))


def lines(*, quick: bool = False) -> list[Line]:
    """Every line: two dtypes against the two usual ways; `quick` holds a sixteenth of the keys."""
    made = []
    for dtype in (torch.float32, torch.bfloat16):
        made += steps(dtype, keys=256 if quick else 4096)
    return made


def steps(dtype: torch.dtype, *, heads: int = 32, kv_heads: int = 8, keys: int = 4096) -> list[Line]:
    """A decoding step that writes one key and attends, against the two usual ways."""
    kind = str(dtype).removeprefix("torch.")
    work = Work(4 * heads * keys * 128, 2 * kv_heads * keys * 128 * dtype.itemsize, kind)
    made = []
    for way, target in WAYS:
        what = f"decode {heads}/{kv_heads} heads, {keys:,} keys, {kind}"

        def make(way=way) -> Pair:
            return _pair(way, dtype, heads, kv_heads, keys)

        made.append(compare(what, way, make, target, work=work))
    return made


def _pair(way: str, dtype: torch.dtype, heads: int, kv_heads: int, keys: int) -> Pair:
    query, new = normal(1, heads, 1, 128, dtype=dtype), normal(1, kv_heads, 1, 128, seed=1, dtype=dtype)
    key, value = (normal(1, kv_heads, keys, 128, seed=seed, dtype=dtype) for seed in (2, 3))
    past = [x[:, :, : keys - 1].clone() for x in (key, value)]

    def ours(query: Tensor, new: Tensor) -> Tensor:
        key[:, :, -1:], value[:, :, -1:] = new, new
        return attention(query, key, value)

    def joined(query: Tensor, new: Tensor) -> Tensor:
        all_keys, all_values = (torch.cat([x, new], dim=2) for x in past)
        return sdpa(query, all_keys, all_values, enable_gqa=True)

    def repeated(query: Tensor, new: Tensor) -> Tensor:
        grown = (torch.cat([x, new], dim=2).repeat_interleave(heads // kv_heads, dim=1) for x in past)
        all_keys, all_values = grown
        return sdpa(query, all_keys, all_values)

    peer = joined if "enable_gqa" in way else repeated
    return forward(ours, query, new), forward(peer, query, new)
