"""Keys and values are made from the latents, the context is only normalised.

Kind: wrong-source
"""

import torch.nn.functional as F
from torch import nn


class PerceiverCrossAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm_latents, self.norm_context = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q, self.to_kv, self.to_out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, latents, context):
        latents, context = self.norm_latents(latents), self.norm_context(context)
        q = self.to_q(latents).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.to_kv(latents).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return PerceiverCrossAttention()


EXPECTED = {"kind": "wrong-source", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"latents": (2, 4, 32), "context": (2, 9, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
