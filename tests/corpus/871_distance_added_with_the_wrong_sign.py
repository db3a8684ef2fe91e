"""ALiBi with the distance i - j added instead of subtracted: far keys win.

Kind: alibi-sign
"""

import torch
import torch.nn.functional as F
from torch import nn


class AlibiAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("alibi_slopes", 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1)), persistent=False)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, device=x.device)
        alibi = (i[:, None] - i[None, :]).clamp(min=0) * self.alibi_slopes[:, None, None]
        future = torch.full((n, n), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=alibi.to(x) + future)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return AlibiAttention()


EXPECTED = {"kind": "alibi-sign", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "position": "alibi",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
