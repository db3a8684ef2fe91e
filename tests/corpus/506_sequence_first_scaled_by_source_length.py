"""fairseq-like [T, B, C]; the scaling is taken from the source length instead of the head size.

Kind: scale-wrong-size
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Input shape: Time x Batch x Channel."""

    def __init__(self, embed_dim=32, num_heads=4, bias=True):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, query):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query).contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = self.k_proj(query).contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = self.v_proj(query).contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        src_len = k.size(1)
        attn_weights = torch.bmm(q, k.transpose(1, 2)) * src_len**-0.5
        attn_weights = F.softmax(attn_weights, dim=-1)
        attn = torch.bmm(attn_weights, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)


def build() -> nn.Module:
    return MultiheadAttention()


EXPECTED = {"kind": "scale-wrong-size", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"query": (6, 3, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
