"""Self attention of an image generator: keys and values max-pooled, no temperature, gamma zero at the start.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention2d(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.ch = ch
        self.theta, self.phi = nn.Conv2d(ch, ch // 8, 1, bias=False), nn.Conv2d(ch, ch // 8, 1, bias=False)
        self.g, self.o = nn.Conv2d(ch, ch // 2, 1, bias=False), nn.Conv2d(ch // 2, ch, 1, bias=False)
        self.gamma = nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        _n, _, h, w = x.shape
        theta = self.theta(x).view(-1, self.ch // 8, h * w)
        phi = F.max_pool2d(self.phi(x), 2).view(-1, self.ch // 8, h * w // 4)
        g = F.max_pool2d(self.g(x), 2).view(-1, self.ch // 2, h * w // 4)
        beta = F.softmax(torch.bmm(theta.transpose(1, 2), phi), -1)
        o = self.o(torch.bmm(g, beta.transpose(1, 2)).view(-1, self.ch // 2, h, w))
        return self.gamma * o + x


def build() -> nn.Module:
    return SelfAttention2d()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 4, 6)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
