"""The map is rolled by +shift, the mask is painted for a roll by -shift. Depthwise-separable Swin on [B, C, H, W].

Kind: shift-mask
"""

import torch
from torch import nn


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim=8, window_size=4, shift_size=1, heads=2):
        super().__init__()
        self.w, self.s, self.heads = window_size, shift_size, heads
        self.qkv, self.proj = nn.Conv2d(dim, 3 * dim, 1), nn.Conv2d(dim, dim, 1)

    def part(self, t):
        B, C, H, W = t.shape
        t = t.view(B, C, H // self.w, self.w, W // self.w, self.w)
        return t.permute(0, 2, 4, 3, 5, 1).reshape(B, -1, self.w**2, C)

    def forward(self, x):
        B, C, H, W = x.shape
        y = torch.roll(x, shifts=(self.s, self.s), dims=(2, 3))
        h, v = torch.zeros(H, dtype=torch.long), torch.zeros(W, dtype=torch.long)
        h[H - self.s :], v[W - self.s :] = 1, 1
        ids = self.part((2 * h[:, None] + v)[None, None]).squeeze(-1)
        bias = torch.where(ids[..., None] == ids[..., None, :], 0.0, float("-inf")).unsqueeze(2).to(x.dtype)
        q, k, val = (self.part(t).unflatten(-1, (self.heads, -1)).transpose(2, 3) for t in self.qkv(y).chunk(3, 1))
        o = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1) @ val
        o = o.transpose(2, 3).reshape(B, H // self.w, W // self.w, self.w, self.w, C)
        o = o.permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)
        return self.proj(torch.roll(o, shifts=(-self.s, -self.s), dims=(2, 3)))


def build() -> nn.Module:
    return ShiftedWindowAttention()


EXPECTED = {"kind": "shift-mask", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BCHW",
    "inputs": {"x": (1, 8, 8, 8)},
    "mask": None,
    "window": 4,
    "shift": 1,
    "embed_dim": 8,
    "heads": 2,
    "head_dim": 4,
    "returns": "out",
}
