"""Correct: DETR decoder layer, post-norm; positions enter queries and keys of both attentions, never the values.

Kind: correct
"""

from torch import nn


class DetrDecoderLayer(nn.Module):
    def __init__(self, d_model=32, nhead=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, 2 * d_model), nn.Linear(2 * d_model, d_model)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, tgt, memory, pos=None, query_pos=None):
        """tgt, query_pos: [B, queries, C]; memory, pos: [B, HW, C]."""
        q = k = tgt if query_pos is None else tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        query = tgt if query_pos is None else tgt + query_pos
        key = memory if pos is None else memory + pos
        tgt = self.norm2(tgt + self.cross_attn(query=query, key=key, value=memory)[0])
        return self.norm3(tgt + self.linear2(self.linear1(tgt).relu()))


def build() -> nn.Module:
    return DetrDecoderLayer()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "wrong-source"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"tgt": (2, 4, 32), "memory": (2, 7, 32)},
    "query_arg": "tgt",
    "context_arg": "memory",
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
