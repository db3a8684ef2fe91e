"""Correct: nn.Transformer between token embeddings; causal mask and padding masks built inside, logits out.

Kind: correct
"""

import torch
from torch import nn


class Seq2Seq(nn.Module):
    """src, tgt: long [B, S], [B, T]; id 1 is padding."""

    def __init__(self, vocab=24, d_model=16, nhead=2, pad=1):
        super().__init__()
        self.pad = pad
        self.src_embed, self.tgt_embed = nn.Embedding(vocab, d_model), nn.Embedding(vocab, d_model)
        self.transformer = nn.Transformer(d_model, nhead, 1, 1, 32, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(d_model, vocab)

    def forward(self, src, tgt):
        future = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool, device=tgt.device).triu(1)
        src_pad = src == self.pad
        out = self.transformer(
            self.src_embed(src), self.tgt_embed(tgt), tgt_mask=future,
            src_key_padding_mask=src_pad, tgt_key_padding_mask=tgt == self.pad, memory_key_padding_mask=src_pad,
        )  # fmt: skip
        return self.generator(out)


def build() -> nn.Module:
    return Seq2Seq()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BL",
    "inputs": {"src": (2, 7), "tgt": (2, 5)},
    "query_arg": "tgt",
    "context_arg": "src",
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
