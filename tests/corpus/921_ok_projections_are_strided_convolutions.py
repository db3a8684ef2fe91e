"""Queries from a depthwise convolution, keys and values from the same with stride 2.

Kind: correct
"""

import torch.nn.functional as F
from torch import nn


class ConvAttention(nn.Module):
    def __init__(self, dim=16, heads=2, kernel=3, kv_stride=2):
        super().__init__()
        self.heads = heads

        def depthwise(stride):
            return nn.Sequential(
                nn.Conv2d(dim, dim, kernel, stride, kernel // 2, groups=dim, bias=False), nn.Conv2d(dim, dim, 1)
            )

        self.to_q, self.to_k, self.to_v = depthwise(1), depthwise(kv_stride), depthwise(kv_stride)
        self.to_out = nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (
            f(x).reshape(b, self.heads, c // self.heads, -1).transpose(2, 3) for f in (self.to_q, self.to_k, self.to_v)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(y.transpose(2, 3).reshape(b, c, h, w))


def build() -> nn.Module:
    return ConvAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 8, 6)},
    "mask": None,
    "channels": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
