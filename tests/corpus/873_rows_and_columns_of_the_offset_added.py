"""The two offsets are summed without a stride: (0, 1) and (1, 0) share a bias.

Kind: relative-index-collision
"""

import torch
from torch import nn


class WindowAttention(nn.Module):
    """x: (windows * batch, Wh * Ww, C)"""

    def __init__(self, dim=32, window_size=(4, 4), num_heads=4):
        super().__init__()
        self.window_size, self.num_heads = window_size, num_heads
        self.table = nn.Parameter(torch.randn((2 * window_size[0] - 1) * (2 * window_size[1] - 1), num_heads) * 0.5)
        ys, xs = torch.meshgrid(torch.arange(window_size[0]), torch.arange(window_size[1]), indexing="ij")
        c = torch.stack((ys, xs)).flatten(1)
        rel = c[:, :, None] - c[:, None]
        index = (rel[0] + window_size[0] - 1) + (rel[1] + window_size[1] - 1)
        self.register_buffer("relative_position_index", index)
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        attn = attn + self.table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return WindowAttention()


EXPECTED = {"kind": "relative-index-collision", "severity": "error"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (2, 16, 32)},
    "mask": None,
    "window": 4,
    "position": "relative",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
