"""Correct: the mask multiplies the weights after the softmax, and the row is divided by what is left.

Kind: correct
"""

import torch
from torch import nn


class RenormalisedPool(nn.Module):
    """att_masks: float [B, L], 1 = region is real."""

    def __init__(self, rnn_size=20, hidden=12):
        super().__init__()
        self.h2att, self.ctx2att, self.alpha = (
            nn.Linear(rnn_size, hidden),
            nn.Linear(rnn_size, hidden),
            nn.Linear(hidden, 1),
        )

    def forward(self, h, att_feats, att_masks=None):
        """h: [B, T, rnn_size] decoder states, att_feats: [B, L, rnn_size]."""
        dot = torch.tanh(self.ctx2att(att_feats)[:, None] + self.h2att(h)[:, :, None])
        weight = torch.softmax(self.alpha(dot).squeeze(-1), dim=-1)
        if att_masks is not None:
            weight = weight * att_masks[:, None].to(weight.dtype)
            weight = weight / weight.sum(-1, keepdim=True).clamp_min(1e-6)
        return torch.bmm(weight, att_feats)


def build() -> nn.Module:
    return RenormalisedPool()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-after-softmax"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"h": (2, 3, 20), "att_feats": (2, 6, 20)},
    "query_arg": "h",
    "context_arg": "att_feats",
    "mask": {"arg": "att_masks", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "float"},
    "embed_dim": 20,
    "heads": 1,
    "head_dim": 20,
    "returns": "out",
}
