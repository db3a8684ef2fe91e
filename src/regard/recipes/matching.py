"""What words of a context and of a question have in common, as features: the same word, the same stem, how rare, how much of the question.

Axes: B questions, T tokens of the context, Q of the question, P passages in a context, E channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.recipes import words
from regard.recipes.word_rows import ID, PASSAGE, STEM, WORD

FEATURES = 6


class Matching(nn.Module):
    """Rows of a context and of a question to what is added to their embeddings, (B, T, E) and (B, Q, E).

    Args:
        width: E.
        known: Words of the vocabulary.
    """

    rarity: Tensor

    def __init__(self, width: int, known: int):
        super().__init__()
        self.register_buffer("rarity", torch.ones(known))  # of each word, 0 to 1
        self.project = nn.Sequential(nn.Linear(FEATURES, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, context: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """Contexts (B, T, F) and questions (B, Q, F), rows of `word_rows`."""
        in_context, in_question = self.features(context, question)
        return self.project(in_context), self.project(in_question)

    def features(self, context: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, 6) and (B, Q, 6): same word, its rarity, same stem, its rarity, the share of the question (by rarity) that stands in
        the token's passage, and that share against the largest of all passages (both 0 for a question)."""
        same, near = (_equal(context[..., i], question[..., i]) for i in (WORD, STEM))  # (B, T, Q)
        rare_context, rare_question = self.rarity[context[..., ID]], self.rarity[question[..., ID]]
        member = F.one_hot(context[..., PASSAGE]).to(rare_context.dtype)  # (B, T, P)
        stands = (member.transpose(1, 2) @ near.to(member.dtype)).clamp(max=1)  # (B, P, Q)
        weight = rare_question * (question[..., STEM] != 0)
        share = (stands @ weight[..., None])[..., 0] / weight.sum(1, keepdim=True).clamp(min=1e-6)  # (B, P)
        against = share / share.amax(1, keepdim=True).clamp(min=1e-6)
        of_passage = [(member @ x[..., None])[..., 0] for x in (share, against)]
        return (
            torch.stack([*_any(same.any(2), near.any(2), rare_context), *of_passage], -1),
            F.pad(torch.stack(_any(same.any(1), near.any(1), rare_question), -1), (0, 2)),
        )


def rarities(contexts: list[Tensor], known: int) -> Tensor:
    """(known,): 0 for a word that all contexts (T, F) have, 1 for one that none has, by the logarithm of their share."""
    counts = torch.zeros(known)
    for context in contexts:
        counts[context[:, ID].unique()] += 1
    found = 1 - torch.log1p(counts) / math.log1p(max(1, len(contexts)))
    found[words.UNKNOWN] = 1.0
    return found


def _equal(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, :, None] == b[:, None, :]) & (a != 0)[:, :, None]


def _any(same: Tensor, near: Tensor, rare: Tensor) -> list[Tensor]:
    return [same * 1.0, same * rare, near * 1.0, near * rare]
