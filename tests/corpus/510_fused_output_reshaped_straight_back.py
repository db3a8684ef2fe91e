"""A causal block whose kernel output [B, H, T, d] is reshaped to [B, T, C] without going back to [B, T, H, d].

Kind: head-merge-order
"""

import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(dim, 3 * dim, bias=False), "proj": nn.Linear(dim, dim, bias=False)})
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def attend(self, x):
        B, T, C = x.shape
        q, k, v = (
            t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.attn["qkv"](x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn["proj"](y.reshape(B, T, C))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


def build() -> nn.Module:
    return Block()


EXPECTED = {"kind": "head-merge-order", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
