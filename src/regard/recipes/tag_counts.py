"""Which tags the n-grams around a token had in training: counted, not learned, so that rare ones are believed as far as they were seen.

Axes: B sentences, T tokens, K tags, G kinds of n-grams: each size, at each place that the token can have in it.
A training sentence is judged by the counts of the others alone, as in `evidence.py`: with its own in them, every n-gram would tell its tags.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.recipes.words import UNKNOWN, n_grams

MOST = 32_767  # is counted; of more the share hardly changes, and a table of 16 bits has half the size
PRIOR = 2.0  # so many imagined occurrences, tagged as tokens are on the whole


class TagCounts(nn.Module):
    """(B, T) ids to (B, T, G, K): by how much more often the n-gram has each tag than tokens have on the whole, as a logarithm.

    Args:
        tags: K.
        sizes: Of the n-grams, 1 .. sizes; G is the sum of these numbers.
        buckets: Of their hashes.
    """

    table: Tensor
    usual: Tensor

    def __init__(self, tags: int, sizes: int, buckets: int):
        super().__init__()
        self.sizes, self.buckets, self.kinds = sizes, buckets, sizes * (sizes + 1) // 2
        self.register_buffer("table", torch.zeros(buckets, tags, dtype=torch.int16))  # tokens with that n-gram and tag
        self.register_buffer("usual", torch.full((tags,), 1 / tags))  # share of each tag

    def hashed(self, ids: Tensor) -> Tensor:
        """(B, T) ids to (B, T, G): the bucket of each kind of n-gram around each token; 0 where one is unknown or there is none."""
        known = ids * (ids > UNKNOWN)  # 0 is padding to n_grams
        ending = [known, *n_grams(known, self.sizes, self.buckets).unbind(-1)]
        found = []
        for size, grams in enumerate(ending, 1):
            for after in range(size):  # of the n-gram's tokens stand behind this one
                shifted = nn.functional.pad(grams, (0, after))[:, after:]
                hashed = (shifted * 2_654_435_761 + len(found) * 40_503) % (self.buckets - 1) + 1
                found.append(hashed * (shifted > 0))
        return torch.stack(found, -1)

    def forward(self, ids: Tensor, own: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        """Judge.

        Args:
            ids: (B, T).
            own: (B, T) the tags of sentences that were counted, so that each is taken out of its own counts; None: other sentences.
            hidden: (B, T) True = a token that nothing is to be told of; it counts in what is taken out all the same.

        Returns:
            (B, T, G, K); 0 where the n-gram was not seen.
        """
        places = self.hashed(ids)
        counts = self.table[places].int()
        if own is not None:
            counts = (counts - _within(places, own, counts.shape[-1])).clamp_min(0)
        told = places if hidden is None else self.hashed(ids.masked_fill(hidden, UNKNOWN))
        counts = counts.to(self.usual.dtype) * (told > 0)[..., None]
        share = (counts + PRIOR * self.usual) / (counts.sum(-1, keepdim=True) + PRIOR)
        return (share / self.usual).log()

    @torch.no_grad()
    def count(self, rows: Sequence[Tensor], tags: Sequence[Tensor]) -> None:
        """Count the training sentences.

        Args:
            rows: The ids of each, (T,).
            tags: Their tags, (T,).
        """
        seen = torch.zeros_like(self.table, dtype=torch.int32)
        for row, right in zip(rows, tags):
            places = self.hashed(row[None])[0]  # (T, G)
            seen.index_put_((places, right[:, None].expand_as(places)), seen.new_ones(places.shape), accumulate=True)
        self.table.copy_(seen.clamp_max(MOST))
        every = torch.bincount(torch.cat(list(tags)), minlength=self.table.shape[1]).to(self.usual.dtype)
        self.usual.copy_((every + 1) / (every + 1).sum())


def _within(places: Tensor, tags: Tensor, kinds: int) -> Tensor:
    """(B, T, G, K): how often each n-gram has each tag in its own sentence."""
    sentence = torch.arange(len(places), device=places.device)[:, None, None]
    _, same = (places + sentence * (places.max() + 1)).unique(return_inverse=True)
    counts = torch.zeros(int(same.max()) + 1, kinds, dtype=torch.int32, device=places.device)
    counts.index_put_((same, tags[..., None].expand_as(same)), counts.new_ones(same.shape), accumulate=True)
    return counts[same]
