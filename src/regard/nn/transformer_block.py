"""Transformer block: mix the tokens, optionally look at a context, then change each token by itself.

Axes: B batch, T tokens, S tokens of the context, E channels.
Sources: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; norm before the mixer: Xiong et al. 2020, arXiv:2002.04745.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import CacheError, ShapeError
from regard.nn.feed_forward import FeedForward
from regard.nn.kv_cache import KVCache


class TransformerBlock(nn.Module):
    """x + mixer(norm(x)), then x + cross(norm(x), context), then x + feed_forward(norm(x)).

    Args:
        embed_dim: Width of the tokens, E.
        mixer: Any module from (B, T, E) to (B, T, E): attention of any kind. `mask`, `positions` and `cache` are handed
            to it when they are given to the block.
        cross: A module called as `cross(x, context, mask=context_mask)`; None: the block takes no context.
        feed_forward: A module from (B, T, E) to (B, T, E); None: `FeedForward(embed_dim)`, four times as wide, GELU.
        norm: Called with `embed_dim` for each norm of the block, such as `torch.nn.RMSNorm`.
        norm_first: True: norm before each branch (GPT-2, Llama, ViT). False: after each sum (BERT, the original).
        dropout: Share of each branch's output set to 0 before it is added, in training only.
        device: Where the parameters of the norms and of the default feed-forward lie.
        dtype: What they are.

    >>> from regard.nn import MultiHeadAttention
    >>> block = TransformerBlock(32, MultiHeadAttention(32, num_heads=4))
    >>> block(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        embed_dim: int,
        mixer: nn.Module,
        *,
        cross: nn.Module | None = None,
        feed_forward: nn.Module | None = None,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        norm_first: bool = True,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.embed_dim = embed_dim
        self.norm_first = norm_first
        self.mixer_norm = norm(embed_dim).to(device=device, dtype=dtype)
        self.mixer = mixer
        self.cross_norm = None if cross is None else norm(embed_dim).to(device=device, dtype=dtype)
        self.cross = cross
        self.feed_forward_norm = norm(embed_dim).to(device=device, dtype=dtype)
        self.feed_forward = FeedForward(embed_dim, device=device, dtype=dtype) if feed_forward is None else feed_forward
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: object | None = None,
        context_mask: object | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Mix, look at the context, change each token.

        Args:
            x: (B, T, E).
            context: (B, S, width that `cross` takes); needed if and only if the block has `cross`.
            mask: Handed to the mixer: which tokens of `x` each token may see.
            context_mask: Handed to `cross`: which tokens of `context` each token may see.
            positions: (B or 1, T), handed to the mixer.
            cache: What `block.new_cache` made, handed to the mixer.

        Returns:
            (B, T, E).

        Raises:
            ShapeError: `x` is not (B, T, E), or a context is missing or not expected.
        """
        self._check(x, context, context_mask)
        given = {"mask": mask, "positions": positions, "cache": cache}
        given = {name: value for name, value in given.items() if value is not None}
        x = self._add(x, self.mixer_norm, lambda tokens: self.mixer(tokens, **given))
        if self.cross is not None and self.cross_norm is not None:
            seen = {} if context_mask is None else {"mask": context_mask}
            cross = self.cross
            x = self._add(x, self.cross_norm, lambda tokens: cross(tokens, context, **seen))
        return self._add(x, self.feed_forward_norm, self.feed_forward)

    def new_cache(self, batch: int, length: int) -> KVCache:
        """The mixer's cache for `batch` sequences of at most `length` tokens.

        Raises:
            CacheError: The mixer makes none.
        """
        make: Callable[[int, int], KVCache] | None = getattr(self.mixer, "new_cache", None)
        if make is None:
            raise CacheError(
                f"{type(self.mixer).__name__} has no new_cache(batch, length); decode with a mixer that has one"
            )
        return make(batch, length)

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, norm_first={self.norm_first}"

    def _add(self, x: Tensor, norm: nn.Module, branch: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(branch(norm(x)))
        return norm(x + self.dropout(branch(x)))

    def _check(self, x: Tensor, context: Tensor | None, context_mask: object | None) -> None:
        if x.dim() != 3 or x.shape[-1] != self.embed_dim:
            raise ShapeError(f"x has shape {tuple(x.shape)}; this block takes (batch, length, {self.embed_dim})")
        if self.cross is None and (context is not None or context_mask is not None):
            raise ShapeError("this block has no cross-attention; build it with cross=..., or leave the context out")
        if self.cross is not None and context is None:
            raise ShapeError("this block has cross-attention; give it a context (batch, length, width)")
