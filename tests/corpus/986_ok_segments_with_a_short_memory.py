"""Segment-level recurrence: hidden states of the latest tokens are handed on, and no more than `memory` of them.

Kind: correct
"""

import torch
from torch import nn


class SegmentAttention(nn.Module):
    """Causal in the segment, and every token of the memory is seen."""

    def __init__(self, width=32, heads=4, memory=5):
        super().__init__()
        self.heads, self.memory = heads, memory
        self.query, self.key_value, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def forward(self, segment, past=None):
        seen = segment if past is None else torch.cat((past, segment), 1)
        n, m = segment.shape[1], seen.shape[1]
        q = self.query(segment).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.key_value(seen).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        later = torch.arange(m, device=seen.device) > torch.arange(m - n, m, device=seen.device)[:, None]
        w = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
        return self.out((w @ v).transpose(1, 2).flatten(2)), seen[:, -self.memory :].detach()


def build() -> nn.Module:
    return SegmentAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-occupancy"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"segment": (2, 4, 32)},
    "mask": None,
    "causal": True,
    "window": None,
    "position": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, past)",
    "cache": {"style": "tensor", "arg": "past", "ret": 1},
}
