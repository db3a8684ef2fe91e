"""Correct: a DETR encoder layer; positions are added to queries and keys, not to values. Sequence-first.

Kind: correct
"""

from torch import nn


class TransformerEncoderLayer(nn.Module):
    """src, pos: [HW, N, C]; src_key_padding_mask: bool [N, HW], True = padding."""

    def __init__(self, d_model=32, nhead=4, dim_feedforward=64, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout, self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout), nn.Dropout(dropout)

    def with_pos_embed(self, tensor, pos):
        return tensor if pos is None else tensor + pos

    def forward(self, src, src_key_padding_mask=None, pos=None):
        q = k = self.with_pos_embed(src, pos)
        src2 = self.self_attn(q, k, value=src, key_padding_mask=src_key_padding_mask)[0]
        src = self.norm1(src + self.dropout1(src2))
        src2 = self.linear2(self.dropout(self.linear1(src).relu()))
        return self.norm2(src + self.dropout2(src2))


def build() -> nn.Module:
    return TransformerEncoderLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "wrong-source"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"src": (6, 3, 32)},
    "mask": {"arg": "src_key_padding_mask", "shape": (3, 6), "on": "keys", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "dropout": 0.1,
}
