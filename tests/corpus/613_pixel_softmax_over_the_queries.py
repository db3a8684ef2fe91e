"""SAGAN-like: energy [B, N queries, N keys], softmax over dim 1, values gathered over the last axis.

Kind: softmax-axis-query
"""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


class SelfAttn(nn.Module):
    def __init__(self, in_dim=16):
        super().__init__()
        self.query_conv = spectral_norm(nn.Conv2d(in_dim, in_dim // 4, 1))
        self.key_conv = spectral_norm(nn.Conv2d(in_dim, in_dim // 4, 1))
        self.value_conv = nn.Conv2d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        B, C, H, W = x.size()
        proj_query = self.query_conv(x).view(B, -1, H * W).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(B, -1, H * W)
        attention = torch.softmax(torch.bmm(proj_query, proj_key), dim=1)
        out = torch.bmm(self.value_conv(x).view(B, -1, H * W), attention.permute(0, 2, 1))
        return self.gamma * out.view(B, C, H, W) + x


def build() -> nn.Module:
    return SelfAttn()


EXPECTED = {"kind": "softmax-axis-query", "severity": "error"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "declared_scale": 1.0,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 4,
    "returns": "out",
}
