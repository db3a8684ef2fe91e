"""q_norm is applied to q, and k_norm to q again; the keys keep their length.

Kind: qknorm-wrong
"""

import torch.nn.functional as F
from torch import nn


class QKNormAttention(nn.Module):
    """Queries and keys are RMS-normalised per head before the dot product."""

    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads, head_dim = num_heads, dim // num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.RMSNorm(head_dim), nn.RMSNorm(head_dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        q, _ = self.k_norm(self.q_norm(q)), self.k_norm(k)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return QKNormAttention()


EXPECTED = {"kind": "qknorm-wrong", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "qk_norm": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "probe": {"qkv": "qkv", "heads": 4},
}
