"""The encoder that the recipes for text share: embedded words and n-grams, positions of any kind, Transformer blocks.

Axes: B texts, T tokens, E channels, S keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.errors import DataError
from regard.core.mask.expression import Mask
from regard.core.position import Rotary, Sinusoidal
from regard.nn.alibi_bias import AlibiBias
from regard.nn.feed_forward import FeedForward
from regard.nn.learned_position import Learned
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.relative_bias import RelativeBias
from regard.nn.transformer_block import TransformerBlock
from regard.recipes.words import PAD, n_grams

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi", "relative")
SMALL = 0.1  # deviation of embeddings at the start, and height of the sinusoids: higher, and places drown the words


@dataclass(frozen=True)
class Sizes:
    """Of an encoder. `grams` 1: words only, 2: pairs too; `buckets`: of their hashes; `hidden`: of the feed-forward; `weights`: share of
    attention weights set to 0 in training, None: half of `dropout`; 0 is faster, since fused kernels can then be taken."""

    words: int
    width: int
    layers: int
    heads: int
    position: str
    length: int
    dropout: float
    grams: int = 1
    buckets: int = 1
    hidden: int = 0
    weights: float | None = None


def mixer(sizes: Sizes, mask: Mask | None = None) -> MultiHeadAttention:
    """Self-attention with the positions that belong into it.

    Raises:
        DataError: An unknown kind of position.
    """
    if sizes.position not in POSITIONS:
        raise DataError(f"position={sizes.position} is not one of {', '.join(POSITIONS)}")
    head = sizes.width // sizes.heads
    biases = {"alibi": AlibiBias, "relative": RelativeBias}
    return MultiHeadAttention(
        sizes.width,
        sizes.heads,
        position=Rotary(head, pairing="half") if sizes.position == "rotary" else None,
        attention_bias=biases[sizes.position](sizes.heads) if sizes.position in biases else None,
        dropout=sizes.dropout / 2 if sizes.weights is None else sizes.weights,
        mask=mask,
    )


class Encoder(nn.Module):
    """(B, T) ids to (B, T, E). With 0 layers: the embeddings alone, the baseline without attention. `local()` makes a layer before each
    block."""

    def __init__(self, sizes: Sizes, *, local: Callable[[], nn.Module] | None = None):
        super().__init__()
        self.sizes = sizes
        self.extra: nn.Module | None = None  # makes of further ids per token, (B, T, A), what is added: (B, T, E)
        self.embed = nn.Embedding(sizes.words, sizes.width, padding_idx=PAD)
        nn.init.normal_(self.embed.weight, std=SMALL)
        self.gram_embed = nn.Embedding(sizes.buckets, sizes.width, padding_idx=PAD) if sizes.grams > 1 else None
        if self.gram_embed is not None:
            nn.init.zeros_(self.gram_embed.weight)
        self.learned = Learned(sizes.length, sizes.width) if sizes.position == "learned" else None
        self.sinusoidal = Sinusoidal(sizes.width) if sizes.position == "sinusoidal" else None
        self.blocks = nn.ModuleList(
            TransformerBlock(
                sizes.width, mixer(sizes), dropout=sizes.dropout,
                feed_forward=FeedForward(sizes.width, sizes.hidden or 2 * sizes.width, dropout=sizes.dropout / 2),
            )
            for _ in range(sizes.layers)
        )  # fmt: skip
        self.local = nn.ModuleList(local() for _ in range(max(1, sizes.layers))) if local is not None else None
        self.norm = nn.LayerNorm(sizes.width) if sizes.layers else nn.Identity()
        self.dropout = nn.Dropout(sizes.dropout)

    def embedded(self, ids: Tensor) -> Tensor:
        """(B, T) to (B, T, E), before positions."""
        x = self.embed(ids)
        if self.gram_embed is not None:
            x = x + self.gram_embed(n_grams(ids, self.sizes.grams, self.sizes.buckets)).sum(2)
        return x

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Mask | None,
        positions: Tensor | None = None,
        extra: Tensor | None = None,
        added: Tensor | None = None,
    ) -> Tensor:
        """Encode.

        Args:
            ids: (B, T).
            mask: Who may attend to whom: `padding(...)`, or `documents(...)` where several texts share a row.
            positions: (B or 1, T); None: 0 .. T - 1.
            extra: (B, T, A) further ids of each token, for `self.extra`.
            added: (B, T, E) to be added to the embeddings, such as a frozen model's vectors.

        Returns:
            (B, T, E).
        """
        x = self.embedded(ids)
        if self.extra is not None and extra is not None:
            x = x + self.extra(extra)
        if added is not None:
            x = x + added
        where = torch.arange(ids.shape[1], device=ids.device)[None] if positions is None else positions
        if self.learned is not None:
            x = self.learned(x, where)
        if self.sinusoidal is not None:
            x = x + SMALL * self.sinusoidal.encode(where, dtype=x.dtype)
        x = self.dropout(x)
        if self.local is not None and not len(self.blocks):
            return self.local[0](x, ids != PAD)
        for i, block in enumerate(self.blocks):
            x = x if self.local is None else self.local[i](x, ids != PAD)
            x = block(x, mask=mask, positions=positions)
        return self.norm(x)
