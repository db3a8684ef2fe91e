"""Cosine scores are filled with -1 ("the smallest cosine") and then multiplied by a temperature of 5.

Kind: mask-fill-weak
"""

import torch
import torch.nn.functional as F
from torch import nn


class CosineMatcher(nn.Module):
    """Match each caption word with image regions. region_mask: bool [B, R], True = region exists."""

    def __init__(self, dim=20, smooth=5.0):
        super().__init__()
        self.smooth, self.word, self.region = smooth, nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, words, regions, region_mask=None):
        keys = self.region(regions)
        cos = F.normalize(self.word(words), dim=-1) @ F.normalize(keys, dim=-1).transpose(1, 2)
        if region_mask is not None:
            cos = cos.masked_fill(~region_mask.unsqueeze(1), -1.0)
        return torch.softmax(self.smooth * cos, dim=-1) @ keys


def build() -> nn.Module:
    return CosineMatcher()


EXPECTED = {"kind": "mask-fill-weak", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"words": (2, 4, 20), "regions": (2, 6, 20)},
    "query_arg": "words",
    "context_arg": "regions",
    "qk_norm": True,
    "mask": {"arg": "region_mask", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 20,
    "heads": 1,
    "head_dim": 20,
    "returns": "out",
}
