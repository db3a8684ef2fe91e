"""Multiplicative attention of one decoder state with lengths of at least 1.

Kind: correct
"""

import torch
from torch import nn


class LuongAttention(nn.Module):
    """src_lengths: (batch,) words per item, at least 1"""

    def __init__(self, hidden=24):
        super().__init__()
        self.W, self.out = nn.Linear(hidden, hidden, bias=False), nn.Linear(2 * hidden, hidden)

    def forward(self, decoder_hidden, encoder_outputs, src_lengths=None):
        score = torch.einsum("bh,bth->bt", self.W(decoder_hidden), encoder_outputs)
        if src_lengths is not None:
            t = torch.arange(score.shape[1], device=score.device)
            score = score.masked_fill(t >= src_lengths[:, None], float("-inf"))
        context = torch.einsum("bt,bth->bh", score.softmax(dim=1), encoder_outputs)
        return torch.tanh(self.out(torch.cat([context, decoder_hidden], dim=1)))


def build() -> nn.Module:
    return LuongAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"decoder_hidden": (2, 24), "encoder_outputs": (2, 6, 24)},
    "mask": {"arg": "src_lengths", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "query_arg": "decoder_hidden",
    "returns": "out",
}
