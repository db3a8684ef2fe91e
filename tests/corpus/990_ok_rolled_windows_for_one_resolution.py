"""Rolled windows on a channels-last map whose regions are painted once, for the resolution of the constructor.

Kind: correct
"""

import torch
from torch import nn


class RolledWindows(nn.Module):
    """(batch, rows, columns, width) -> the same."""

    def __init__(self, width=24, heads=3, resolution=(8, 8), window=4, roll=2):
        super().__init__()
        self.heads, self.window, self.roll = heads, window, roll
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        r, c = (torch.bucketize(torch.arange(n), torch.tensor([n - window, n - roll]), right=True) for n in resolution)
        region = self.cut((3 * r[:, None] + c)[None, :, :, None].float())[..., 0]
        self.register_buffer("apart", region[:, None] != region[:, :, None], persistent=False)

    def cut(self, x):
        b, h, c, d = x.shape
        w = self.window
        return x.reshape(b, h // w, w, c // w, w, d).transpose(2, 3).reshape(-1, w * w, d)

    def forward(self, x):
        b, h, c, d = x.shape
        w = self.window
        y = self.cut(x.roll((-self.roll, -self.roll), (1, 2)))
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT * q.shape[-1] ** -0.5).unflatten(0, (-1, len(self.apart)))
        s = s.masked_fill(self.apart[None, :, None], -torch.inf).flatten(0, 1)
        y = self.mix((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = y.reshape(b, h // w, c // w, w, w, d).transpose(2, 3).reshape(b, h, c, d)
        return y.roll((self.roll, self.roll), (1, 2))


def build() -> nn.Module:
    return RolledWindows()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "shift-mask"}
CALL = {
    "attention": "window",
    "layout": "BHWC",
    "inputs": {"x": (2, 8, 8, 24)},
    "mask": None,
    "causal": False,
    "window": 4,
    "position": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "tensor",
    "cache": None,
}
