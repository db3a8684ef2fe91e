"""Correct: DANet; pixels attend to pixels, channels attend to channels (softmax of maximum - energy), summed.

Kind: correct
"""

import torch
from torch import nn


class PAM(nn.Module):
    def __init__(self, in_dim):
        super().__init__()
        self.query_conv, self.key_conv = nn.Conv2d(in_dim, in_dim // 4, 1), nn.Conv2d(in_dim, in_dim // 4, 1)
        self.value_conv, self.gamma = nn.Conv2d(in_dim, in_dim, 1), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        B, C, H, W = x.size()
        q = self.query_conv(x).view(B, -1, W * H).permute(0, 2, 1)
        attention = torch.bmm(q, self.key_conv(x).view(B, -1, W * H)).softmax(-1)
        out = torch.bmm(self.value_conv(x).view(B, -1, W * H), attention.permute(0, 2, 1))
        return self.gamma * out.view(B, C, H, W) + x


class CAM(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        f = x.flatten(2)
        energy = torch.bmm(f, f.transpose(1, 2))
        attention = torch.softmax(energy.max(-1, keepdim=True)[0].expand_as(energy) - energy, dim=-1)
        return self.gamma * torch.bmm(attention, f).view_as(x) + x


class DualAttention(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.pam, self.cam = PAM(channels), CAM()

    def forward(self, x):
        return self.pam(x) + self.cam(x)


def build() -> nn.Module:
    return DualAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "scale-inverted"}
CALL = {
    "attention": "spatial",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 5)},
    "mask": None,
    "returns": "out",
    "note": "two attentions with different scales, so none is declared",
}
