"""Parts of tokens: what is known of a word or character that was never seen, as narrow vectors of hashes.

Axes: B sentences, T tokens, E channels, A parts of a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import torch
from torch import Tensor, nn

PAD = 0
NARROW = 32  # channels of a part


class Parts(nn.Module):
    """(B, T, A) hashes of the parts of tokens to (B, T, E): narrow vectors side by side, each kind of part mapped by itself.

    A part that was never seen in training adds nothing, since the vectors start at 0.
    """

    def __init__(self, kinds: int, buckets: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(buckets, NARROW, padding_idx=PAD)
        nn.init.zeros_(self.embed.weight)
        self.project = nn.Linear(kinds * NARROW, width, bias=False)

    def forward(self, parts: Tensor) -> Tensor:
        """(B, T, A) to (B, T, E)."""
        return self.project(self.embed(parts).flatten(2))


def hashed_parts(tokens: Sequence[str], letters: bool, buckets: int) -> Tensor:
    """(T, A): the buckets of the parts of each token, from 1 to `buckets` - 1."""
    rows = parts_of(tokens, letters)
    return torch.tensor(
        [[crc32(part.encode("utf-8", "surrogatepass")) % (buckets - 1) + 1 for part in row] for row in rows]
    )


def kinds_of_parts(letters: bool) -> int:
    """A."""
    return len(parts_of(("a",), letters)[0])


def parts_of(tokens: Sequence[str], letters: bool) -> list[Sequence[str]]:
    """What is known of tokens that were never seen. Of words: small letters, beginnings, endings, shape; of characters: both pairs.

    >>> parts_of("他来了", letters=False)[1]
    ('他来', '来了')
    """
    if letters:
        return [_letters(token) for token in tokens]
    around = ["", *tokens, ""]
    return [(before + token, token + after) for before, token, after in zip(around, tokens, around[2:])]


@lru_cache(maxsize=100_000)
def _letters(word: str) -> Sequence[str]:
    low = word.lower()
    kinds = ["X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word]
    shape = "".join(c for i, c in enumerate(kinds) if kinds[max(0, i - 1)] != c or i < 2)
    return (low, *(f"{n}<{low[:n]}" for n in (2, 3, 4)), *(f"{n}>{low[-n:]}" for n in (1, 2, 3, 4)), f"={shape}")
