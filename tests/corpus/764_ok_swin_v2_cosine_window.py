"""Correct: Swin V2 window; cosine scores, clamped temperature, bias from an MLP of log-spaced offsets through 16 sigmoid.

Kind: correct
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class WindowAttentionV2(nn.Module):
    """Tokens of one window in raster order, [windows, 3 * 4, C]."""

    def __init__(self, dim=16, window_size=(3, 4), num_heads=2):
        super().__init__()
        self.window_size, self.num_heads = window_size, num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 24), nn.ReLU(inplace=True), nn.Linear(24, num_heads, bias=False))
        Wh, Ww = window_size
        y, x = torch.arange(1 - Wh, Wh).float() / (Wh - 1), torch.arange(1 - Ww, Ww).float() / (Ww - 1)
        table = torch.stack(torch.meshgrid(y, x, indexing="ij"), -1) * 8
        self.register_buffer("table", torch.sign(table) * torch.log2(table.abs() + 1.0) / 3, persistent=False)
        coords = torch.stack(torch.meshgrid(torch.arange(Wh), torch.arange(Ww), indexing="ij")).flatten(1)
        rel = coords[:, :, None] - coords[:, None, :]
        self.register_buffer("index", (rel[0] + Wh - 1) * (2 * Ww - 1) + rel[1] + Ww - 1, persistent=False)
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        B, N, C = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        q, k, v = F.linear(x, self.qkv.weight, bias).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(1.0 / 0.01)).exp()
        rel = self.cpb_mlp(self.table).view(-1, self.num_heads)[self.index].permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(rel).unsqueeze(0)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return WindowAttentionV2()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "scale"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 16)},
    "mask": None,
    "position": "relative-2d",
    "window": (3, 4),
    "qk_norm": True,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
