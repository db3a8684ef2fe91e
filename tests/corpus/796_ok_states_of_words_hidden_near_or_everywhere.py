"""mask holds 0 (padding), 1 (sees near words) or 2 (sees and is seen by all). Words of state 2 have projections of their own.

Kind: correct
"""

import copy

import torch
from torch import nn


class NearAndEverywhere(nn.Module):
    """mask (batch, n), long. Where no word has state 2, the second set of projections is not asked; it begins as a copy of the first."""

    def __init__(self, size=32, heads=2, span=3):
        super().__init__()
        self.heads, self.span = heads, span
        self.near = nn.ModuleList(nn.Linear(size, size) for _ in "qkv")
        self.everywhere = copy.deepcopy(self.near)
        self.out = nn.Linear(size, size)

    def read(self, parts, x, keep):
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        scores = torch.matmul(q / q.shape[-1] ** 0.5, k.mT).masked_fill(~keep.unsqueeze(1), -1e4)
        return torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2)

    def forward(self, x, mask):
        word, wide = mask != 0, mask == 2
        place = torch.arange(x.shape[1], device=x.device)
        close = (place[None, :] - place[:, None]).abs().le(self.span)
        keep = word[:, None, :] & (close | wide[:, None, :])
        local = self.read(self.near, x, keep)
        full = self.read(self.everywhere, x, word[:, None, :].expand_as(keep))
        return self.out(torch.where(wide[..., None], full, local)) * word[..., None]


def build() -> nn.Module:
    return NearAndEverywhere()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "unused-parameters"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": {"arg": "mask", "shape": (2, 9), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
