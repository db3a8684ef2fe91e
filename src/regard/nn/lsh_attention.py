"""Reformer's attention: each token attends to the few that hash alike; queries and keys share one projection.

Axes: B batch, T tokens, E channels, H heads, D and Dv channels of one head.
Source: Kitaev et al. 2020, arXiv:2001.04451.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.core import lsh
from regard.core.attention import attention
from regard.core.errors import ShapeError
from regard.core.mask.expression import Mask
from regard.nn import key_mask
from regard.nn.heads import check_heads, check_inputs, draw_projections, to_heads, weight_like
from regard.nn.multi_head import Inspected
from regard.nn.redraws import Redraws


class LSHAttention(nn.Module):
    """out_proj(softmax over the tokens near i of q_i . q_j / (|q_j| sqrt(D)) times v_j), head by head.

    Near are the tokens that any of `num_hashes` rounds of hashing brings together, each counted once; a token sees itself
    only if nothing else is near. Up to `bucket_size` tokens, all are near and the attention is exact (shared-query-key).

    Not causal, a round sorts the tokens by bucket and cuts them into chunks of `bucket_size`; a token sees its chunk and the
    one before. Causal, it sees the `bucket_size` latest earlier tokens of its bucket, in each round, and as many of all.
    Which these are depends on earlier tokens only; in the chunks of the paper and of released code later tokens move
    the borders. Later tokens change earlier rows by rounding alone, since they change the order of sums.

    The rotations that hash lie in the buffer `rotations`, which is saved with the layer: the same input gives the same
    output, in training too, until they are drawn anew.

    Args:
        embed_dim: Width of the input and of the output, E.
        num_heads: Number of heads, H.
        num_hashes: Rounds of hashing.
        num_buckets: Buckets of a round: 1, or even. About the usual length divided by `bucket_size`.
        bucket_size: Tokens of a chunk.
        causal: Whether no token sees a later one, by original position.
        redraw_every: Draw the rotations anew before every so many-th forward pass in training; None: only when
            `redraw` is called. Not with activation checkpointing or `torch.compile`.
        head_dim: Width of a head, D; None: E / H. A pair (D, Dv) gives value heads a width of their own.
        bias: Whether the projections add a bias.
        device: Where the parameters lie.
        dtype: What they are.

    Raises:
        ShapeError: Sizes that do not go together.

    Source: Kitaev et al. 2020, arXiv:2001.04451, section 2. Shapes: (B, T, E) in and out.

    >>> layer = LSHAttention(32, num_heads=4, causal=True)
    >>> layer(torch.zeros(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    rotations: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_hashes: int = 4,
        num_buckets: int = 32,
        bucket_size: int = 64,
        causal: bool = False,
        redraw_every: int | None = None,
        head_dim: int | tuple[int, int] | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_heads(embed_dim, num_heads, num_heads, head_dim)
        if bucket_size < 1:
            raise ShapeError(f"bucket_size is a number of tokens, at least 1; got {bucket_size}")
        head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.head_dim, self.value_head_dim = head_dim if isinstance(head_dim, tuple) else (head_dim, head_dim)
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.num_hashes, self.num_buckets, self.bucket_size = num_hashes, num_buckets, bucket_size
        self.causal = causal
        self.redraws = Redraws(redraw_every)

        made = {"bias": bias, "device": device, "dtype": dtype}
        self.qk_proj = nn.Linear(embed_dim, num_heads * self.head_dim, **made)
        self.v_proj = nn.Linear(embed_dim, num_heads * self.value_head_dim, **made)
        self.out_proj = nn.Linear(num_heads * self.value_head_dim, embed_dim, **made)
        self.reset_parameters()
        self.register_buffer("rotations", self._draw(None))

    def reset_parameters(self) -> None:
        """Draw the three weights anew (Xavier uniform, torch's generator) and set the biases to 0."""
        draw_projections(self.qk_proj, self.v_proj, self.out_proj)

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw the rotations anew.

        Args:
            generator: None: torch's global one.
        """
        self.rotations = self._draw(generator)
        self.redraws.passes = 0

    def forward(self, query: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """Attend; in training, draw the rotations anew where that is due.

        Args:
            query: (B, T, E); keys and values are made of it too.
            mask: `causal()`, `padding(...)`, both joined with `&`, or a bool tensor (B, 1, 1, T), True = attend.

        Returns:
            (B, T, E). The row of a hidden token is the output of `out_proj` for zeros.

        Raises:
            ShapeError, DtypeError: An input that does not fit the layer.
            MaskError: A mask of another form.
        """
        if self.redraws.due(self.training):
            passes = self.redraws.passes
            self.redraw()
            self.redraws.passes = passes
        shared, value, said = self._prepare(query, mask)
        return self._joined(self._attend(shared, value, said))

    def inspect(self, query: Tensor, *, mask: Mask | Tensor | None = None) -> Inspected:
        """Attend, and also say how: output (B, T, E) as `forward` gives it, weights (B, H, T, T). Arguments as in `forward`."""
        shared, value, said = self._prepare(query, mask)
        T = query.shape[1]
        each = torch.eye(T, device=value.device, dtype=value.dtype).expand(*shared.shape[:2], T, T)
        return Inspected(self._joined(self._attend(shared, value, said)), self._attend(shared, each, said))

    @torch.no_grad()
    def error(self, query: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """(H,): how far each head is from attention to all tokens with the same shared queries and keys, before `out_proj`.

        It is |hashed - exact| / |exact|, norms over samples, tokens that are kept, and channels. Arguments as in `forward`.
        """
        shared, value, said = self._prepare(query, mask)
        T = shared.shape[2]
        attend = torch.ones(1, 1, T, T, dtype=torch.bool, device=shared.device)
        attend = attend.tril() if said.causal else attend
        kept = torch.ones(1, 1, T, 1, dtype=torch.bool, device=shared.device)
        if said.keep is not None:
            attend, kept = attend & said.keep[:, None, None], said.keep[:, None, :, None]
        others = attend & ~torch.eye(T, dtype=torch.bool, device=shared.device)
        attend = others | (attend & ~others.any(dim=-1, keepdim=True))
        exact = attention(shared, normalize(shared, dim=-1), value, mask=attend).float() * kept
        apart = self._attend(shared, value, said).float() - exact
        return apart.norm(dim=(2, 3)).norm(dim=0) / exact.norm(dim=(2, 3)).norm(dim=0)

    def extra_repr(self) -> str:
        said = [f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, head_dim={self.head_dim}"]
        said.append(
            f"value_head_dim={self.value_head_dim}, num_hashes={self.num_hashes}, num_buckets={self.num_buckets}"
        )
        said.append(f"bucket_size={self.bucket_size}, causal={self.causal}, redraw_every={self.redraws.every}")
        return ", ".join(said)

    def _prepare(self, query: Tensor, mask: Mask | Tensor | None) -> tuple[Tensor, Tensor, key_mask.KeyMask]:
        """Shared queries and keys (B, H, T, D), values (B, H, T, Dv), and what the mask says."""
        widths = (self.embed_dim, self.embed_dim, self.embed_dim)
        check_inputs(query, query, query, widths, weight_like(self.qk_proj))
        shared = to_heads(self.qk_proj(query), self.head_dim, "qk_proj")
        value = to_heads(self.v_proj(query), self.value_head_dim, "v_proj")
        B, H, T, _ = shared.shape
        said = key_mask.read(mask, (B, H, T, T), shared.device, owner=type(self).__name__)
        return shared, value, said._replace(causal=said.causal or self.causal)

    def _attend(self, shared: Tensor, value: Tensor, said: key_mask.KeyMask) -> Tensor:
        """(B, H, T, Dv)."""
        return lsh.hashed_attention(
            shared,
            value,
            self.rotations,
            bucket_size=self.bucket_size,
            causal=said.causal,
            keep=said.keep,
        )

    def _joined(self, heads: Tensor) -> Tensor:
        return self.out_proj(heads.transpose(1, 2).flatten(2))

    def _draw(self, generator: torch.Generator | None) -> Tensor:
        weight = weight_like(self.qk_proj)
        drawn = lsh.draw_rotations(self.num_hashes, self.head_dim, self.num_buckets, generator=generator)
        return drawn.to(device=weight.device, dtype=weight.dtype)
