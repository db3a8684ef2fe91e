"""Correct: rotary positions on neighbouring pairs, table built in the forward, bidirectional.

Kind: correct
"""

import torch
from torch import nn


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


class RoFormerSelfAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def sinusoids(self, n, d, like):
        inv = 10000 ** (-torch.arange(0, d, 2, dtype=like.dtype) / d)
        angle = torch.einsum("i,j->ij", torch.arange(n, dtype=like.dtype), inv).repeat_interleave(2, dim=-1)
        return angle.sin(), angle.cos()

    def forward(self, hidden_states):
        q, k, v = (f(hidden_states).unflatten(2, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        sin, cos = self.sinusoids(q.shape[2], q.shape[3], q)
        q, k = (t * cos + rotate_every_two(t) * sin for t in (q, k))
        return self.o(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1).matmul(v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return RoFormerSelfAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "rope-pairing"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 7, 32)},
    "mask": None,
    "position": "rope",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
