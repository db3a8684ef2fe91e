"""Multi-head attention: project to heads, attend in each, join them, project back.

Axes: B batch, T query tokens, S key tokens, E channels, H query heads, G key-value heads, D and Dv channels of one head.
Sources: Vaswani et al. 2017, arXiv:1706.03762, section 3.2; fewer key heads: Ainslie et al. 2023, arXiv:2305.13245.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.attention import attention, attention_weights
from regard.core.errors import CacheError, ShapeError
from regard.core.mask.expression import Mask
from regard.core.mask.sequences import padding
from regard.nn.head_projections import HeadProjections
from regard.nn.heads import autocast_dtype, check_dropout, weight_like
from regard.nn.kv_cache import KVCache, Stand
from regard.nn.mask_with_cache import CachedMask, combine, window_of
from regard.nn.token_positions import check_positions

Rotation = Callable[[Tensor, Tensor], Tensor]  # (B, H, T, D) and positions (1 or B, T) -> (B, H, T, D)
Bias = Callable[[Tensor, Tensor], Tensor]  # positions (1 or B, T) and (1 or B, S) -> (1 or B, H, T, S)


class Inspected(NamedTuple):
    """What a layer gave, and how it attended."""

    output: Tensor  # (B, T, E), as forward gives it
    weights: Tensor  # (B, H, T, S), after softmax, before dropout


class _Call(NamedTuple):
    """The arguments of `regard.attention`, ready."""

    query: Tensor  # (B, H, T, D)
    key: Tensor  # (B, G, S, D)
    value: Tensor  # (B, G, S, Dv)
    mask: Mask | Tensor | None
    bias: Tensor | None


class MultiHeadAttention(HeadProjections):
    """out_proj(attention(q_proj(query), k_proj(key), v_proj(value))), head by head.

    Query head i reads key head i // (num_heads / num_kv_heads). How many heads there are is read from the width of the
    projections at every call, so a layer whose projections were cut to some of the heads (tensor parallelism) works.
    The four weights start as Xavier uniform, the biases as 0.

    Args:
        embed_dim: Width of the query and of the output, E.
        num_heads: Number of query heads, H.
        num_kv_heads: Number of key-value heads, G, which divides H; None: H; 1: multi-query attention.
        head_dim: Width of a head, D; None: embed_dim / num_heads. A pair (D, Dv) gives value heads a width of their own.
        key_dim: Width of `key` where it is not E, as `kdim` of torch's layer.
        value_dim: Width of `value` where it is not that of `key`, as `vdim` of torch's layer.
        bias: Whether the four projections add a bias.
        dropout: Share of the weights set to 0, in training only.
        position: Called with (B, heads, T, D) and positions (1 or B, T) on queries and on keys, such as `Rotary`.
        mask: Who may attend to whom in every call, such as `causal()`; a call's own mask is added to it (and).
        attention_bias: Called with the positions of queries and keys, (1 or B, T) and (1 or B, S); its result
            (1 or B, H, T, S) is added to the scaled scores, such as `AlibiBias`.
        scale: Factor of the scores; None: 1 / sqrt(D).
        softcap: Scores become softcap * tanh(score / softcap).
        qk_norm: Called with D for the norm of the queries and for that of the keys, such as `torch.nn.RMSNorm`;
            applied to each head before the positions.
        device: Where the parameters lie.
        dtype: What they are.

    Raises:
        ShapeError: Widths and head counts that do not go together.

    >>> layer = MultiHeadAttention(32, num_heads=4, num_kv_heads=2)
    >>> layer(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | tuple[int, int] | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        position: Rotation | None = None,
        mask: Mask | None = None,
        attention_bias: Bias | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        qk_norm: Callable[[int], nn.Module] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            key_dim=key_dim,
            value_dim=value_dim,
            bias=bias,
            device=device,
            dtype=dtype,
        )
        check_dropout(dropout)
        self.dropout, self.scale, self.softcap = dropout, scale, softcap
        self.position, self.mask, self.attention_bias = position, mask, attention_bias
        self.q_norm = None if qk_norm is None else qk_norm(self.head_dim).to(device=device, dtype=dtype)
        self.k_norm = None if qk_norm is None else qk_norm(self.head_dim).to(device=device, dtype=dtype)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            query: (B, T, E).
            key: (B, S, key_dim); None: self-attention, the query is the key too.
            value: (B, S, value_dim); None: as key.
            mask: Who may attend to whom in this call, besides the layer's own mask: a `Mask`, or a bool tensor, True =
                attend, (T, S) or broadcastable to (B, H, T, S). With a cache, S counts all the keys so far.
            positions: (B or 1, T), integer: where each token stands, for `position` and `attention_bias`; with a cache
                also for the mask, and negative for a padding token. None: 0 .. T - 1, or onwards from the cache.
            cache: What `layer.new_cache` made. It takes the keys and values of this call in, and self-attention
                reaches back to all that it holds.

        Returns:
            (B, T, E). A query that may attend to no key gets the output of `out_proj` for zeros.

        Raises:
            ShapeError, DtypeError, MaskError: An argument that does not fit the layer or the others.
            CacheError: A cache that is full, was made for another batch or layer, or is given to cross-attention.
        """
        call = self._prepare(query, key, value, mask, positions, cache)
        return self._finish(call)

    def inspect(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Inspected:
        """Attend, and also say how: the pair (output, weights). Arguments as in `forward`; memory is B x H x T x S.

        Returns:
            output: (B, T, E), what `forward` gives. weights: (B, H, T, S), after softmax, before dropout.
        """
        call = self._prepare(query, key, value, mask, positions, None)
        weights = attention_weights(
            call.query, call.key, mask=call.mask, bias=call.bias, scale=self.scale, softcap=self.softcap
        )
        return Inspected(self._finish(call), weights)

    def new_cache(self, batch: int, length: int) -> KVCache:
        """A cache for `batch` sequences of at most `length` tokens, with this layer's heads, dtype and device.

        Where the layer's own mask is a window of fewer than `length` keys (`causal() & sliding_window(left=W - 1)`),
        the cache rolls: it has W slots and takes any number of tokens.
        """
        weight = weight_like(self.k_proj)
        local = getattr(weight, "to_local", None)  # a DTensor: this rank's heads
        weight = weight if local is None else local()
        window = window_of(self.mask)
        return KVCache(
            batch,
            weight.shape[0] // self.head_dim,
            length if window is None else min(length, window),
            self.head_dim,
            self.value_head_dim,
            rolling=window is not None and window < length,
            device=weight.device,
            dtype=autocast_dtype(weight.device) or weight.dtype,
        )

    def extra_repr(self) -> str:
        said = [f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"]
        said.append(f"head_dim={self.head_dim}, value_head_dim={self.value_head_dim}, dropout={self.dropout}")
        for name in ("mask", "scale", "softcap", "position", "attention_bias"):
            setting = getattr(self, name)
            if setting is not None and not isinstance(setting, nn.Module):  # modules are listed by torch itself
                said.append(f"{name}={setting!r}")
        return ", ".join(said)

    def _prepare(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | Tensor | None,
        positions: Tensor | None,
        cache: KVCache | None,
    ) -> _Call:
        if key is not None and positions is not None:
            raise ShapeError(
                "positions are for self-attention, where queries and keys stand alike; leave key and value out"
            )
        if key is not None and cache is not None:
            raise CacheError("a cache is for self-attention, whose keys grow with the queries; leave key and value out")
        query, key, value = self._checked(query, key, value)
        q, k, v = self._project(query, key, value)
        B, H, T = q.shape[:3]
        if cache is None:
            mask, stand = self._without_cache(mask, positions, B, T, k.shape[2], q.device)
        else:
            cache.check(k, v)
            cached = CachedMask(self.mask, mask, positions, cache, (B, H, T))
            mask, stand, positions = cached.mask, cached.stand, cached.positions
        if self.position is not None:
            q = self.position(q, stand.query_positions)
            k = self.position(k, stand.query_positions if cache is not None else stand.key_positions)
        if cache is not None:
            k, v = cache.append(k, v, positions)[:2]
        bias = None if self.attention_bias is None else self.attention_bias(stand.query_positions, stand.key_positions)
        return _Call(q, k, v, mask, bias)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super()._project(query, key, value)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        return q, k, v

    def _without_cache(
        self, mask: Mask | Tensor | None, positions: Tensor | None, B: int, T: int, S: int, device: torch.device
    ) -> tuple[Mask | None, Stand]:
        """The mask goes by row and column here; positions only say where tokens stand, and which are padding."""
        mask = combine(self.mask, mask)
        if positions is None:
            return mask, Stand(torch.arange(T, device=device)[None], torch.arange(S, device=device)[None], 0)
        check_positions(positions, B, T)
        positions = positions.to(device)
        return combine(padding(positions >= 0), mask), Stand(positions, positions, None)

    def _finish(self, call: _Call) -> Tensor:
        """Attend in each head, join the heads, project: (B, T, E)."""
        dropout = self.dropout if self.training else 0.0
        joined = attention(
            call.query,
            call.key,
            call.value,
            mask=call.mask,
            bias=call.bias,
            scale=self.scale,
            softcap=self.softcap,
            dropout=dropout,
        )
        return self._joined(joined)
