"""Evidence of n-grams: by how much each occurs more often in the texts of one class than in those of the others.

Axes: B texts, T tokens, N sizes of n-grams, K classes.
Source: Wang and Manning 2012, "Baselines and bigrams", section 2: log-count ratios of naive Bayes inside a model that is trained.
A training text is judged by the counts of the others alone: with its own in them, every n-gram would seem to tell its class.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.recipes.words import UNKNOWN, n_grams


class Evidence(nn.Module):
    """A number for each n-gram and class: what `count` counted, plus what is learned, from 0.

    Args:
        classes: K.
        grams: Sizes of the n-grams, 1 .. N.
        buckets: Of their hashes.
    """

    texts: Tensor
    total: Tensor

    def __init__(self, classes: int, grams: int, buckets: int):
        super().__init__()
        self.grams, self.buckets = grams, buckets
        self.register_buffer("texts", torch.zeros(buckets, classes))  # of each class that have the n-gram
        self.register_buffer("total", torch.ones(classes))  # n-grams of each class
        self.table = nn.Embedding(buckets, classes, padding_idx=0)
        nn.init.zeros_(self.table.weight)

    def hashed(self, ids: Tensor) -> Tensor:
        """(B, T) ids to (B, T, N): the buckets of the n-grams that end at each place; 0 where there is none."""
        words = (ids * 2_654_435_761 % (self.buckets - 1) + 1) * (ids > UNKNOWN)
        return torch.cat([words[..., None], n_grams(ids, self.grams, self.buckets)], -1)

    def forward(self, ids: Tensor, own: Tensor | None = None) -> Tensor:
        """The evidence of each place.

        Args:
            ids: (B, T).
            own: (B,) the classes of texts that were counted, so that each can be taken out of its own counts; None: others.

        Returns:
            (B, T, K): the sum over the n-grams that end there of log P(n-gram | class), less its mean over the classes.
        """
        places = self.hashed(ids)  # (B, T, N)
        texts = self.texts[places]  # (B, T, N, K)
        if own is not None:
            texts = (texts - F.one_hot(own, texts.shape[-1])[:, None, None]).clamp_min(0)
        share = (texts + 1).log() - self.total.log()
        known = (places > 0) & (texts.sum(-1) > 0)
        return ((share - share.mean(-1, keepdim=True)) * known[..., None] + self.table(places)).sum(2)

    @torch.no_grad()
    def count(self, rows: Sequence[Sequence[int]], labels: Sequence[int]) -> None:
        """Count the texts of each class that have an n-gram, once each.

        Args:
            rows: The ids of the training texts.
            labels: Their classes.
        """
        seen = torch.zeros_like(self.texts)
        for row, label in zip(rows, labels):
            seen[self.hashed(torch.tensor([row])).unique(), label] += 1
        seen[0] = 0
        self.texts.copy_(seen)
        self.total.copy_(((seen + 1) * (seen.sum(1, keepdim=True) > 0)).sum(0))
