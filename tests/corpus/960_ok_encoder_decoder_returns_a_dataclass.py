"""A small translation model in torch layers, output in a dataclass; True in the padding mask is padding.

Kind: correct
"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Seq2SeqOutput:
    last_hidden_state: torch.Tensor
    encoder_last_hidden_state: torch.Tensor


class Seq2Seq(nn.Module):
    """src: (batch, n, dim), tgt: (batch, m, dim), src_key_padding_mask: (batch, n) bool, True = padding."""

    def __init__(self, d_model=32, nhead=4):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(d_model, nhead, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(d_model, nhead, 64, dropout=0.0, batch_first=True)

    def forward(self, src, tgt, src_key_padding_mask=None):
        memory = self.encoder(src, src_key_padding_mask=src_key_padding_mask)
        n = tgt.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool, device=tgt.device).triu(1)
        y = self.decoder(tgt, memory, tgt_mask=causal, memory_key_padding_mask=src_key_padding_mask)
        return Seq2SeqOutput(last_hidden_state=y, encoder_last_hidden_state=memory)


def build() -> nn.Module:
    return Seq2Seq()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"src": (2, 7, 32), "tgt": (2, 5, 32)},
    "mask": {"arg": "src_key_padding_mask", "shape": (2, 7), "on": "memory", "polarity": "drop", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "dataclass",
}
