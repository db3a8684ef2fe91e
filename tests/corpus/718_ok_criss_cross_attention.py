"""Correct: CCNet; each pixel attends to its row and column in one softmax, itself hidden in one of the two.

Kind: correct
"""

import torch
from torch import nn


class CrissCrossAttention(nn.Module):
    def __init__(self, in_dim=16):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 2, 1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 2, 1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        H, _W = x.shape[-2:]
        q, k, v = self.query_conv(x), self.key_conv(x), self.value_conv(x)
        along_h = torch.einsum("bchw,bcgw->bhwg", q, k)
        along_h = along_h.masked_fill(torch.eye(H, dtype=torch.bool, device=x.device)[None, :, None], float("-inf"))
        along_w = torch.einsum("bchw,bchv->bhwv", q, k)
        weights = torch.softmax(torch.cat((along_h, along_w), -1), dim=-1)
        out = torch.einsum("bhwg,bcgw->bchw", weights[..., :H], v)
        out = out + torch.einsum("bhwv,bchv->bchw", weights[..., H:], v)
        return self.gamma * out + x


def build() -> nn.Module:
    return CrissCrossAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "output-unused"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 8,
    "returns": "out",
    "declared_scale": 1.0,
}
