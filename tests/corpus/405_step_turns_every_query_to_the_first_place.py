"""step(x) turns the new query and key by place 0, whatever came before; forward turns each by its own place.

Kind: cache-rope-offset
"""

import torch
from torch import nn


class Turning(nn.Module):
    """Causal attention with rotated queries and keys; step(x) takes the next token and remembers it until reset()."""

    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.past = []

    def reset(self):
        self.past = []

    def turn(self, t, place):
        angle = place[:, None] * 100.0 ** (-torch.arange(0, self.size, 2) / self.size)
        a, b = t[..., ::2], t[..., 1::2]
        turned = torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)
        return turned.flatten(-2).to(t.dtype)

    def parts(self, x, place):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.turn(q, place), self.turn(k, place), v

    def attend(self, q, k, v, keep=None):
        scores = q @ k.mT / self.size**0.5
        scores = scores if keep is None else scores.masked_fill(~keep, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        n = x.shape[1]
        return self.attend(*self.parts(x, torch.arange(n)), torch.ones(n, n, dtype=torch.bool).tril())

    def step(self, x):
        q, k, v = self.parts(x, torch.arange(x.shape[1]))
        self.past.append((k, v))
        return self.attend(q, *(torch.cat(t, dim=2) for t in zip(*self.past)))


def build() -> nn.Module:
    return Turning()


EXPECTED = {"kind": "cache-rope-offset", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "position": "rope",
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
    "cache": {"style": "internal", "reset": "reset"},
}
