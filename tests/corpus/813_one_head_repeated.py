"""One projection of the size of a head is repeated for all of them; queries too.

Kind: heads-collapsed
"""

from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.q, self.k, self.v = (nn.Linear(dim, self.head_dim) for _ in range(3))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q = self.q(x).repeat(1, 1, self.num_heads).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        k = self.k(x).repeat(1, 1, self.num_heads).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        v = self.v(x).repeat(1, 1, self.num_heads).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        attn = (q @ k.transpose(-2, -1) * self.head_dim**-0.5).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "heads-collapsed", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
