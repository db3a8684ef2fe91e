"""(batch, pixels, channels) is viewed as (batch, channels, height, width).

Kind: spatial-layout-scramble
"""

import torch
import torch.nn.functional as F
from torch import nn


class NonLocalBlock2D(nn.Module):
    def __init__(self, in_channels=16):
        super().__init__()
        self.inter_channels = in_channels // 2
        self.g = nn.Conv2d(in_channels, self.inter_channels, 1)
        self.theta = nn.Conv2d(in_channels, self.inter_channels, 1)
        self.phi = nn.Conv2d(in_channels, self.inter_channels, 1)
        self.W = nn.Conv2d(self.inter_channels, in_channels, 1)

    def forward(self, x):
        batch_size = x.size(0)
        g_x = self.g(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        phi_x = self.phi(x).view(batch_size, self.inter_channels, -1)
        f_div_C = F.softmax(torch.matmul(theta_x, phi_x), dim=-1)
        y = torch.matmul(f_div_C, g_x).contiguous()
        y = y.view(batch_size, self.inter_channels, *x.size()[2:])
        return self.W(y) + x


def build() -> nn.Module:
    return NonLocalBlock2D()


EXPECTED = {"kind": "spatial-layout-scramble", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 5, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
