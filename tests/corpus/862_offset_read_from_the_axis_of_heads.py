"""The cache is (batch, heads, tokens, head), its length is read from axis 1.

Kind: cache-rope-offset
"""

import torch
import torch.nn.functional as F
from torch import nn


def rotate(x, offset):
    half = x.shape[-1] // 2
    freq = 10000.0 ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
    angle = (offset + torch.arange(x.shape[-2], device=x.device))[:, None] * freq
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class RotaryAttention(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, layer_past=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        offset = 0 if layer_past is None else layer_past[0].shape[1]
        q, k = rotate(q, offset), rotate(k, offset)
        if layer_past is not None:
            k, v = torch.cat((layer_past[0], k), 2), torch.cat((layer_past[1], v), 2)
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - q.shape[2])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.proj(y.transpose(1, 2).flatten(2)), (k, v)


def build() -> nn.Module:
    return RotaryAttention()


EXPECTED = {"kind": "cache-rope-offset", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "layer_past", "ret": 1},
}
