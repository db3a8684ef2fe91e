"""Deformable attention on one level: each pixel predicts offsets and weights for four samples of the values.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class DeformableAttention(nn.Module):
    def __init__(self, dim=16, heads=2, points=4):
        super().__init__()
        self.heads, self.points = heads, points
        self.offsets, self.weights = nn.Conv2d(dim, heads * points * 2, 1), nn.Conv2d(dim, heads * points, 1)
        self.value, self.out = nn.Conv2d(dim, dim, 1), nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        ys = (torch.arange(h, device=x.device, dtype=x.dtype) + 0.5) / h * 2 - 1
        xs = (torch.arange(w, device=x.device, dtype=x.dtype) + 0.5) / w * 2 - 1
        ref = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)
        off = self.offsets(x).view(b * self.heads, self.points, 2, h, w).permute(0, 1, 3, 4, 2)
        grid = (ref + off.tanh() * 2 / max(h, w)).flatten(1, 2)
        v = self.value(x).view(b * self.heads, c // self.heads, h, w)
        sampled = F.grid_sample(v, grid, padding_mode="border", align_corners=False)
        sampled = sampled.view(b * self.heads, -1, self.points, h, w)
        a = self.weights(x).view(b * self.heads, 1, self.points, h, w).softmax(2)
        return self.out((sampled * a).sum(2).view(b, c, h, w))


def build() -> nn.Module:
    return DeformableAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BCHW",
    "inputs": {"x": (2, 16, 6, 5)},
    "mask": None,
    "channels": 16,
    "returns": "out",
}
