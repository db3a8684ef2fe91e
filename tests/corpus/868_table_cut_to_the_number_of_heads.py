"""The rotation takes axis -2 for the tokens; the tensors are (batch, tokens, heads, head).

Kind: rope-wrong-axis
"""

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim, base=10000, length=128):
        super().__init__()
        angle = torch.outer(torch.arange(length).double(), base ** (-torch.arange(0, dim, 2).double() / dim)).repeat(
            1, 2
        )
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def forward(self, x):
        n, half = x.shape[-2], x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * self.cos[:n].to(x) + turned * self.sin[:n].to(x)


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.rotary = heads, Rotary(dim // heads)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, self.heads, -1) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotary(q), self.rotary(k)
        w = torch.einsum("bthd,bshd->bhts", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
        return self.wo(torch.einsum("bhts,bshd->bthd", w, v).flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "rope-wrong-axis", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
