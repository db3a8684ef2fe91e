"""Performer's attention: softmax attention estimated by positive orthogonal random features (FAVOR+).

Axes: B batch, T query tokens, S key tokens, H query heads, D channels of one head, F random features.
Source: Choromanski et al. 2021, arXiv:2009.14794.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.core import favor
from regard.core.attention import attention
from regard.core.linear import Features
from regard.core.mask.band import causal as causal_mask
from regard.core.mask.expression import Mask
from regard.core.mask.sequences import padding
from regard.nn.heads import weight_like
from regard.nn.kernel_attention import KernelAttention
from regard.nn.linear_cache import LinearCache
from regard.nn.redraws import Redraws

CHUNK = 128  # tokens: a state of 256 features costs as much as 256 keys, so fewer states than in linear attention


class FavorAttention(KernelAttention):
    """phi(x)_f = exp(w_f . x' - |x'|^2 / 2) with x' = x D^(-1/4) and random w_f, so that phi(q) . phi(k) estimates exp(q . k / sqrt(D)).

    The directions w lie in the buffer `directions` (num_features, D), which is saved with the layer; all heads share
    them. In eval mode the same input gives the same output. Strictly causal: no stabiliser knows a later key.
    `error` says how far the estimate is from softmax attention; it is large unless scores are small.

    Args:
        embed_dim: Width of the query and of the output, E.
        num_heads: Number of query heads, H.
        num_features: F; None: D ln D, and no fewer than D.
        redraw_every: Draw the directions anew before every so many-th forward pass in training (torch's generator); None:
            only when `redraw` is called. With activation checkpointing, which runs a forward pass twice, or
            `torch.compile`, leave it None and call `redraw` in the training loop.
        causal, num_kv_heads, head_dim, key_dim, value_dim, bias, device, dtype: As in `KernelAttention`.

    Raises:
        ShapeError: Widths and head counts that do not go together.

    Source: Choromanski et al. 2021, arXiv:2009.14794. Shapes: (B, T, E) in and out.

    >>> layer = FavorAttention(32, num_heads=4, causal=True)
    >>> layer(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    directions: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_features: int | None = None,
        redraw_every: int | None = None,
        causal: bool = False,
        num_kv_heads: int | None = None,
        head_dim: int | tuple[int, int] | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            causal=causal,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            key_dim=key_dim,
            value_dim=value_dim,
            bias=bias,
            chunk=CHUNK,
            device=device,
            dtype=dtype,
        )
        D = self.head_dim
        self.num_features = max(D, round(D * math.log(D))) if num_features is None else num_features
        self.redraws = Redraws(redraw_every)
        self.register_buffer("directions", self._draw(None))

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw the directions anew.

        Args:
            generator: None: torch's global one.
        """
        self.directions = self._draw(generator)  # a new tensor: a graph that is still needed keeps the old one
        self.redraws.passes = 0

    def features(self, query: Tensor, key: Tensor) -> Features:
        return favor.random_features(query, key, self.directions, scale=self.head_dim**-0.5)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: LinearCache | None = None,
    ) -> Tensor:
        """Attend; in training, draw the directions anew where that is due. See `KernelAttention.forward`."""
        if self.redraws.due(self.training):
            passes = self.redraws.passes
            self.redraw()
            self.redraws.passes = passes
        return super().forward(query, key, value, mask=mask, cache=cache)

    @torch.no_grad()
    def error(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
    ) -> Tensor:
        """(H,): how far each head is from softmax attention on this input, before `out_proj`.

        It is |estimate - exact| / |exact|, norms over samples, tokens and channels; rows of padding in self-attention count.
        Arguments as in `forward`.
        """
        call = self._prepare(query, key, value, mask, None)
        parts = ([causal_mask()] if call.causal else []) + ([] if call.keep is None else [padding(call.keep)])
        seen = None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]
        exact = attention(call.query, call.key, call.value, mask=seen).float()
        apart = self._attend(call, None).float() - exact
        return apart.norm(dim=(2, 3)).norm(dim=0) / exact.norm(dim=(2, 3)).norm(dim=0)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, num_features={self.num_features}, redraw_every={self.redraws.every}"

    def _drawn(self) -> object:
        return self.directions

    def _draw(self, generator: torch.Generator | None) -> Tensor:
        weight = weight_like(self.q_proj)
        drawn = favor.draw_directions(self.num_features, self.head_dim, generator=generator)
        return drawn.to(device=weight.device, dtype=weight.dtype)
