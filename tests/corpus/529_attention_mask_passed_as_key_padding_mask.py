"""A tokenizer mask (1 = real token) goes to nn.MultiheadAttention, whose key_padding_mask has True for padding.

Kind: mask-inverted
"""

from torch import nn


class SentenceEncoder(nn.Module):
    def __init__(self, d_model=32, nhead=4, layers=2):
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(
                nn.ModuleDict(
                    {
                        "attn": nn.MultiheadAttention(d_model, nhead, batch_first=True),
                        "norm": nn.LayerNorm(d_model),
                        "ff": nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model)),
                    }
                )
            )

    def forward(self, embeddings, attention_mask=None):
        """attention_mask: [batch, length] as the tokenizer gives it, 1 for tokens and 0 for padding."""
        pad = None if attention_mask is None else attention_mask.bool()
        for block in self.blocks:
            a, _ = block["attn"](embeddings, embeddings, embeddings, key_padding_mask=pad)
            embeddings = block["norm"](embeddings + a)
            embeddings = embeddings + block["ff"](embeddings)
        return embeddings


def build() -> nn.Module:
    return SentenceEncoder()


EXPECTED = {"kind": "mask-inverted", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"embeddings": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
