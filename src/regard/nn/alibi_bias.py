"""ALiBi as part of a layer: what is far counts less, by a slope of its own for each head. Nothing is learned.

Axes: B batch, H query heads, T queries, S keys.
Source: Press et al. 2021, arXiv:2108.12409.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.core.bias import alibi, alibi_slopes


class AlibiBias(nn.Module):
    """-slope * |query position - key position|, for `MultiHeadAttention(attention_bias=...)`.

    Args:
        num_heads: Number of query heads, H; any number, see `regard.bias.alibi`.

    >>> import torch
    >>> AlibiBias(1)(torch.arange(2)[None], torch.arange(3)[None])
    tensor([[[[-0.0000, -0.0039, -0.0078],
              [-0.0039, -0.0000, -0.0039]]]])
    """

    def __init__(self, num_heads: int):
        super().__init__()
        alibi_slopes(num_heads)  # refuses no heads now, and not in the first call
        self.num_heads = num_heads

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(B or 1, T) and (B or 1, S), integer, to (B or 1, H, T, S), float32."""
        return alibi(self.num_heads, query_positions, key_positions)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"
