"""One token at a time with fewer key heads than query heads: a preallocated cache against concatenation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench.timing import forward, normal, one_thread, row
from regard.core.attention import attention

ROUNDS = 15


def rows(*, rounds: int = ROUNDS) -> list[dict]:
    """Measure every line; see `timing.row` for what a row holds."""
    with one_thread():
        return [line for dtype in (torch.float32, torch.bfloat16) for line in steps(dtype, rounds)]


def steps(dtype: torch.dtype, rounds: int, *, heads: int = 32, kv_heads: int = 8, keys: int = 4096) -> list[dict]:
    """A decoding step that writes one key and attends, against the two usual ways."""
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

    kind = str(dtype).removeprefix("torch.")
    peers = (("torch.cat and enable_gqa", joined, 2.5), ("torch.cat and repeat", repeated, 12.0))
    lines = []
    for name, peer, target in peers:
        title = f"decode {heads}/{kv_heads} heads, {keys:,} keys, {kind}, against {name}"
        lines.append(row(title, forward(ours, query, new), forward(peer, query, new), target, rounds=rounds))
    return lines
