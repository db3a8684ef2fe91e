"""Correct: PVT spatial reduction; keys and values come from a strided convolution of the map.

Kind: correct
"""

from torch import nn


class SpatialReductionAttention(nn.Module):
    def __init__(self, dim=16, num_heads=2, sr_ratio=2):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.q, self.kv, self.proj = nn.Linear(dim, dim), nn.Linear(dim, dim * 2), nn.Linear(dim, dim)
        self.sr, self.norm = nn.Conv2d(dim, dim, kernel_size=sr_ratio, stride=sr_ratio), nn.LayerNorm(dim)

    def forward(self, x, H, W):
        """x: [B, H * W, C]."""
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        x_ = x.permute(0, 2, 1).reshape(B, C, H, W)
        x_ = self.norm(self.sr(x_).reshape(B, C, -1).permute(0, 2, 1))
        kv = self.kv(x_).reshape(B, -1, 2, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        k, v = kv[0], kv[1]
        attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return SpatialReductionAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-layout-scramble"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 24, 16), "H": 4, "W": 6},
    "mask": None,
    "grid": (4, 6),
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
