"""What attention layers with separate projections have in common: their widths, q, k, v and out projections, and the way to heads.

Axes: B batch, T query tokens, S key tokens, E channels, H query heads, G key-value heads, D and Dv channels of one head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.nn.heads import check_heads, check_inputs, draw_projections, to_heads, weight_like


class HeadProjections(nn.Module):
    """q_proj, k_proj and v_proj to heads, out_proj from them; what is between them is the layer's own.

    How many heads there are is read from the width of the projections at every call, so a layer whose projections were cut to some
    of the heads (tensor parallelism), or replaced by quantised ones, works.

    Args:
        embed_dim, num_heads, num_kv_heads, head_dim, key_dim, value_dim, bias, device, dtype: As in `MultiHeadAttention`.

    Raises:
        ShapeError: Widths and head counts that do not go together.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None,
        head_dim: int | tuple[int, int] | None,
        key_dim: int | None,
        value_dim: int | None,
        bias: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_heads(embed_dim, num_heads, num_kv_heads, head_dim)
        head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.head_dim, self.value_head_dim = head_dim if isinstance(head_dim, tuple) else (head_dim, head_dim)
        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, num_kv_heads
        self.key_dim = embed_dim if key_dim is None else key_dim
        self.value_dim = self.key_dim if value_dim is None else value_dim

        made = {"bias": bias, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(embed_dim, num_heads * self.head_dim, **made)
        self.k_proj = nn.Linear(self.key_dim, num_kv_heads * self.head_dim, **made)
        self.v_proj = nn.Linear(self.value_dim, num_kv_heads * self.value_head_dim, **made)
        self.out_proj = nn.Linear(num_heads * self.value_head_dim, embed_dim, **made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the four weights anew (Xavier uniform, torch's generator) and set the biases to 0."""
        draw_projections(self.q_proj, self.k_proj, self.v_proj, self.out_proj)

    def _checked(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value with their defaults, each of the right width, dtype and device."""
        if key is None and value is not None:
            raise ShapeError("a value came without a key; give both, or neither for self-attention")
        key = query if key is None else key
        value = key if value is None else value
        check_inputs(query, key, value, (self.embed_dim, self.key_dim, self.value_dim), weight_like(self.q_proj))
        return query, key, value

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """To (B, H, T, D), (B, G, S, D) and (B, G, S, Dv): as many heads as the projections are wide."""
        q = to_heads(self.q_proj(query), self.head_dim, "q_proj")
        k = to_heads(self.k_proj(key), self.head_dim, "k_proj")
        v = to_heads(self.v_proj(value), self.value_head_dim, "v_proj")
        if k.shape[1] != v.shape[1] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
            raise ShapeError(
                f"the projections make {q.shape[1]} query heads, {k.shape[1]} key heads and {v.shape[1]} value heads; "
                "keys and values need equally many, and that number must divide the query heads"
            )
        return q, k, v

    def _joined(self, heads: Tensor) -> Tensor:
        """(B, H, T, Dv) to (B, T, E): the heads side by side, projected."""
        return self.out_proj(heads.transpose(1, 2).flatten(2))
