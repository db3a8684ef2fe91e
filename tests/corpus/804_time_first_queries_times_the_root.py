"""Time first, as in old sequence toolkits; the queries are multiplied by sqrt(head_dim).

Kind: scale-inverted
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Input shape: Time x Batch x Channel"""

    def __init__(self, embed_dim=32, num_heads=4):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.scaling = math.sqrt(self.head_dim)
        self.q_proj, self.k_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)
        self.v_proj, self.out_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, query):
        tgt_len, bsz, _ = query.size()
        q = self.q_proj(query) * self.scaling
        q, k, v = (
            t.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
            for t in (q, self.k_proj(query), self.v_proj(query))
        )
        attn_weights = F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1)
        attn = torch.bmm(attn_weights, v).transpose(0, 1).reshape(tgt_len, bsz, self.embed_dim)
        return self.out_proj(attn), attn_weights.view(bsz, self.num_heads, tgt_len, tgt_len)


def build() -> nn.Module:
    return MultiheadAttention()


EXPECTED = {"kind": "scale-inverted", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"query": (6, 2, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, weights)",
}
