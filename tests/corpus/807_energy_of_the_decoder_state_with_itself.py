"""The decoder state is concatenated with itself: every source position gets the same energy.

Kind: uniform-attention
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, hidden_size=24):
        super().__init__()
        self.attn = nn.Linear(hidden_size * 2, hidden_size)
        self.v = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, hidden, encoder_outputs):
        """hidden: [batch, dim]; encoder_outputs: [batch, src_len, dim]"""
        src_len = encoder_outputs.shape[1]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        energy = torch.tanh(self.attn(torch.cat((hidden, hidden), dim=2)))
        attention = F.softmax(self.v(energy).squeeze(2), dim=1)
        context = torch.bmm(attention.unsqueeze(1), encoder_outputs).squeeze(1)
        return context, attention


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "uniform-attention", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"hidden": (2, 24), "encoder_outputs": (2, 6, 24)},
    "mask": None,
    "query_arg": "hidden",
    "returns": "(out, weights)",
}
