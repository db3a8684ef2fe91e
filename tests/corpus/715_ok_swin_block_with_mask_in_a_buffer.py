"""Correct: a whole Swin block for one resolution; shift mask and relative index are buffers, -100 hides.

Kind: correct
"""

import torch
import torch.nn as nn


def window_partition(x, window_size):
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size, window_size, C)


def window_reverse(windows, window_size, H, W):
    B = int(windows.shape[0] / (H * W / window_size / window_size))
    x = windows.view(B, H // window_size, W // window_size, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * window_size - 1) ** 2, num_heads) * 0.02)
        coords = torch.stack(
            torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij")
        ).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + window_size - 1
        self.register_buffer("relative_position_index", rel[..., 0] * (2 * window_size - 1) + rel[..., 1])
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B_, N, C))


class SwinTransformerBlock(nn.Module):
    """x: [B, H * W, C] in raster order, for the resolution given."""

    def __init__(self, dim=16, input_resolution=(6, 9), num_heads=2, window_size=3, shift_size=1):
        super().__init__()
        self.input_resolution, self.window_size, self.shift_size = input_resolution, window_size, shift_size
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window_size, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        H, W = input_resolution
        img_mask = torch.zeros((1, H, W, 1))
        slices = (slice(0, -window_size), slice(-window_size, -shift_size), slice(-shift_size, None))
        for i, h in enumerate(slices):
            for j, w in enumerate(slices):
                img_mask[:, h, w, :] = 3 * i + j
        mask_windows = window_partition(img_mask, window_size).view(-1, window_size * window_size)
        attn_mask = mask_windows.unsqueeze(1) - mask_windows.unsqueeze(2)
        self.register_buffer("attn_mask", attn_mask.masked_fill(attn_mask != 0, -100.0))

    def forward(self, x):
        H, W = self.input_resolution
        B, L, C = x.shape
        assert L == H * W, "input feature has wrong size"
        shortcut = x
        x = torch.roll(self.norm1(x).view(B, H, W, C), shifts=(-self.shift_size, -self.shift_size), dims=(1, 2))
        windows = window_partition(x, self.window_size).view(-1, self.window_size**2, C)
        windows = self.attn(windows, mask=self.attn_mask).view(-1, self.window_size, self.window_size, C)
        x = window_reverse(windows, self.window_size, H, W)
        x = torch.roll(x, shifts=(self.shift_size, self.shift_size), dims=(1, 2)).view(B, H * W, C)
        x = shortcut + x
        return x + self.mlp(self.norm2(x))


def build() -> nn.Module:
    return SwinTransformerBlock()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "shift-mask"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"x": (1, 54, 16)},
    "mask": None,
    "grid": (6, 9),
    "window": 3,
    "shift": 1,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
