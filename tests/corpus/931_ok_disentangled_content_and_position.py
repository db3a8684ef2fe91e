"""Three terms (content-content, content-position, position-content), divided by sqrt(3 d).

Kind: correct
"""

import torch
from torch import nn


class DisentangledAttention(nn.Module):
    def __init__(self, dim=32, heads=4, span=16):
        super().__init__()
        self.heads, self.span = heads, span
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.pos_q, self.pos_k = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.rel = nn.Parameter(torch.randn(2 * span, dim))

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        i = torch.arange(n, device=x.device)
        delta = (i[:, None] - i[None] + self.span).clamp(0, 2 * self.span - 1)
        c2p = torch.gather(q @ self.split(self.pos_k(self.rel)).mT, -1, delta.expand(*q.shape[:2], n, n))
        p2c = torch.gather(k @ self.split(self.pos_q(self.rel)).mT, -1, delta.expand(*q.shape[:2], n, n)).mT
        s = (q @ k.mT + c2p + p2c) / (3 * q.shape[-1]) ** 0.5
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return DisentangledAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "position": "relative",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "declared_scale": 0.20412414523193154,
    "returns": "out",
}
