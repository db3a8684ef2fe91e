"""General (bilinear) attention of a recurrent decoder that takes lengths and does not use them.

Kind: mask-ignored
"""

import torch
from torch import nn


class LuongAttention(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.W = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(2 * hidden, hidden)

    def forward(self, decoder_hidden, encoder_outputs, src_lengths=None):
        """decoder_hidden: (batch, hidden); encoder_outputs: (batch, time, hidden); src_lengths: (batch,)"""
        score = torch.einsum("bh,bth->bt", self.W(decoder_hidden), encoder_outputs)
        align = score.softmax(dim=1)
        context = torch.einsum("bt,bth->bh", align, encoder_outputs)
        return torch.tanh(self.out(torch.cat([context, decoder_hidden], dim=1))), align


def build() -> nn.Module:
    return LuongAttention()


EXPECTED = {"kind": "mask-ignored", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"decoder_hidden": (2, 24), "encoder_outputs": (2, 6, 24)},
    "query_arg": "decoder_hidden",
    "mask": {"arg": "src_lengths", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "returns": "(out, weights)",
}
