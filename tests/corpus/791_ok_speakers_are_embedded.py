"""segment_ids say who speaks, A or B. They are looked up in a table and added; every word of a talk sees every other.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class Talk(nn.Module):
    def __init__(self, width=36, heads=6):
        super().__init__()
        self.heads, self.speaker = heads, nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, words, segment_ids=None):
        """words (batch, n, width), segment_ids (batch, n) of 0 and 1, all 0 if not given."""
        who = torch.zeros(words.shape[:2], dtype=torch.long) if segment_ids is None else segment_ids
        h = self.norm(words + self.speaker(who))
        q, k, v = (part(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        return words + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Talk()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-ignored"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"words": (2, 7, 36)},
    "mask": None,
    "embed_dim": 36,
    "heads": 6,
    "head_dim": 6,
    "returns": "out",
}
