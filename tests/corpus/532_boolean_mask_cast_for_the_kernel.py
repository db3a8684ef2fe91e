"""A boolean mask is cast to the dtype of q before the fused kernel, which then adds 0 and 1.

Kind: mask-added-as-01
"""

import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, dim_head=8, heads=4):
        super().__init__()
        self.heads = heads
        inner = dim_head * heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x, mask=None):
        """mask: bool (b, n), True = token is real."""
        x = self.norm(x)
        q, k, v = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1))
        q, k, v = (t.reshape(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in (q, k, v))
        if mask is not None:
            mask = mask[:, None, None, :].expand(-1, self.heads, q.shape[-2], -1).to(q.dtype)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(out.transpose(1, 2).flatten(-2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "mask-added-as-01", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
