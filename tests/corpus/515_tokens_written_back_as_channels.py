"""A non-local block with a residual: [B, N, C] tokens are viewed as [B, C, H, W] without a transpose.

Kind: spatial-layout-scramble
"""

import torch
from torch import nn


class NonLocal2d(nn.Module):
    def __init__(self, in_channels=16, reduction=2):
        super().__init__()
        inter = in_channels // reduction
        self.theta = nn.Conv2d(in_channels, inter, 1)
        self.phi = nn.Conv2d(in_channels, inter, 1)
        self.g = nn.Conv2d(in_channels, inter, 1)
        self.conv_out = nn.Conv2d(inter, in_channels, 1)
        self.inter = inter

    def forward(self, x):
        n, _, h, w = x.shape
        g_x = self.g(x).view(n, self.inter, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(n, self.inter, -1).permute(0, 2, 1)
        phi_x = self.phi(x).view(n, self.inter, -1)
        pairwise = torch.matmul(theta_x, phi_x) / self.inter**0.5
        y = torch.matmul(pairwise.softmax(dim=-1), g_x)
        y = y.contiguous().view(n, self.inter, h, w)
        return x + self.conv_out(y)


def build() -> nn.Module:
    return NonLocal2d()


EXPECTED = {"kind": "spatial-layout-scramble", "severity": "error"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 3, 5)},
    "mask": None,
    "embed_dim": 8,
    "heads": 1,
    "head_dim": 8,
    "returns": "out",
}
