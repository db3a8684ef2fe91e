"""Additive attention of one decoder state, (batch, dim), over encoder outputs.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class BahdanauAttention(nn.Module):
    """hidden: (batch, dim); encoder_outputs: (batch, src_len, dim); mask: (batch, src_len), True = word"""

    def __init__(self, dim=24):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(self, hidden, encoder_outputs, mask=None):
        scores = self.Va(torch.tanh(self.Wa(hidden).unsqueeze(1) + self.Ua(encoder_outputs))).squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights.unsqueeze(1), encoder_outputs).squeeze(1), weights


def build() -> nn.Module:
    return BahdanauAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"hidden": (2, 24), "encoder_outputs": (2, 6, 24)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "query_arg": "hidden",
    "returns": "(out, weights)",
}
