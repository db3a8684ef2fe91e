"""Our layer under another framework's signature: torch's, timm's and x-transformers' attention.

Axes: B samples, T queries, S keys, E channels, H query heads.
A stand-in takes the arguments of the module whose place it has, means the same by them, and refuses those that ours does
not have. Its `layer` is a `regard.nn.MultiHeadAttention`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.attention import attention, attention_weights
from regard.core.errors import AdaptError, ShapeError
from regard.core.mask.band import causal as past_only, sliding_window
from regard.core.mask.convert import from_torch_mha
from regard.core.mask.expression import Mask
from regard.core.mask.sequences import padding
from regard.core.mask.table import from_bool
from regard.core.mask.values import readable
from regard.nn.multi_head import MultiHeadAttention


def attend(
    layer: MultiHeadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | None = None,
    bias: Tensor | None = None,
    weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The layer's output (B, T, E) under this mask alone, with a bias, and (B, H, T, S) weights where they are wanted."""
    q = layer.q_proj(query).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
    k = layer.k_proj(key).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
    v = layer.v_proj(value).unflatten(-1, (-1, layer.value_head_dim)).transpose(1, 2)
    if layer.q_norm is not None and layer.k_norm is not None:
        q, k = layer.q_norm(q), layer.k_norm(k)
    scores: dict[str, Any] = {"mask": mask, "bias": bias, "scale": layer.scale, "softcap": layer.softcap}
    output = attention(q, k, v, dropout=layer.dropout if layer.training else 0.0, **scores)
    given = attention_weights(q, k, **scores) if weights else None
    return layer.out_proj(output.transpose(1, 2).flatten(2)), given


class InTorch(nn.Module):
    """In the place of a `torch.nn.MultiheadAttention`; True in a mask = hidden, as there.

    A row that sees no key is 0, where torch gives NaN. torch's encoder layers read some of its attributes; by
    `_qkv_same_embed_dim` they see that their own fused path is not for it.
    """

    def __init__(self, layer: MultiHeadAttention, module: nn.MultiheadAttention):
        super().__init__()
        self.layer = layer
        self.batch_first, self.num_heads, self.embed_dim = module.batch_first, module.num_heads, module.embed_dim
        self.head_dim, self.dropout, self.kdim, self.vdim = module.head_dim, module.dropout, module.kdim, module.vdim
        self._qkv_same_embed_dim, self.in_proj_bias, self.in_proj_weight = False, None, None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As `torch.nn.MultiheadAttention.forward`."""
        if is_causal and attn_mask is None:
            raise AdaptError(
                "is_causal=True is a hint about attn_mask, which is missing; give the mask too, as torch wants it"
            )
        if query.is_nested:
            raise AdaptError("nested tensors do not go into this attention; give padded tensors and key_padding_mask")
        alone = query.ndim == 2  # (T, E), no batch
        if alone:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        mask, bias = _torch_masks(attn_mask, key_padding_mask, self.num_heads, query.dtype)
        output, weights = attend(self.layer, query, key, value, mask=mask, bias=bias, weights=need_weights)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if alone:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights


class InTimm(nn.Module):
    """In the place of timm's `Attention`: one tensor in, one out; True in a mask = attend."""

    def __init__(self, layer: MultiHeadAttention, module: Any):
        super().__init__()
        self.layer, self.proj_drop = layer, module.proj_drop
        self.num_heads, self.head_dim, self.scale = module.num_heads, module.head_dim, module.scale
        self.fused_attn = getattr(module, "fused_attn", True)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """As timm's: is_causal=True goes before attn_mask."""
        mask, bias = (past_only(), None) if is_causal else _attending(attn_mask, x.dtype)
        return self.proj_drop(attend(self.layer, x, x, x, mask=mask, bias=bias)[0])


class InXTransformers(nn.Module):
    """In the place of `x_transformers.Attention`: masks keep where True; no memories, caches or residuals of values."""

    def __init__(self, layer: MultiHeadAttention, module: Any):
        super().__init__()
        self.layer = layer
        self.heads, self.kv_heads, self.causal = module.heads, module.kv_heads, module.causal
        past = module.max_attend_past  # that many before it, besides itself
        self.window = None if past is None else sliding_window(left=past)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        context_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        causal: bool | None = None,
        return_intermediates: bool = False,
        pos: Any = None,
        **others: Any,
    ) -> Any:
        """As `x_transformers.Attention.forward`."""
        given = [name for name, value in others.items() if value is not None]
        if given:
            raise AdaptError(
                f"{', '.join(sorted(given))} came to an x_transformers attention, and ours does not have that"
            )
        found, bias = _attending(attn_mask, x.dtype)
        kept = mask if context is None else context_mask
        parts = [past_only() if (self.causal if causal is None else causal) else None, self.window, found]
        parts.append(None if kept is None else padding(kept))
        whole = None
        for part in parts:
            whole = part if whole is None else whole if part is None else whole & part
        source = x if context is None else context
        output, _ = attend(self.layer, x, source, source, mask=whole, bias=bias)
        if not return_intermediates:
            return output
        from x_transformers.attend import Intermediates

        return output, Intermediates()


def _torch_masks(
    attn_mask: Tensor | None, keys: Tensor | None, heads: int, dtype: torch.dtype
) -> tuple[Mask | None, Tensor | None]:
    """The mask, and the bias where a float mask is one: torch adds both masks to the scores."""
    if attn_mask is None and keys is None:
        return None, None
    if _boolean(attn_mask) and _boolean(keys):
        return from_torch_mha(attn_mask, keys, num_heads=heads), None
    bias = torch.zeros((), dtype=dtype)
    if attn_mask is not None:
        table = attn_mask if attn_mask.ndim == 2 else attn_mask.unflatten(0, (-1, heads))
        bias = _added(table if table.ndim == 4 else table[None, None], dtype)
    if keys is not None:
        bias = bias + _added(keys[:, None, None], dtype)
    return None, bias


def _boolean(mask: Tensor | None) -> bool:
    """Whether it says only who sees whom: bool, or float of 0 and very negative numbers."""
    if mask is None or mask.dtype == torch.bool:
        return True
    return readable(mask) and bool(((mask == 0) | (mask <= -80)).all())


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))


def _attending(mask: Tensor | None, dtype: torch.dtype) -> tuple[Mask | None, Tensor | None]:
    """The mask, or the bias, of a tensor in which True = attend; two, three (B, T, S) or four axes."""
    if mask is None:
        return None, None
    if mask.ndim not in (2, 3, 4):
        raise ShapeError(f"a mask is (T, S), (B, T, S) or (B, H, T, S), got {tuple(mask.shape)}")
    four = mask[None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask
    return (from_bool(four), None) if mask.dtype == torch.bool else (None, four.to(dtype))
