"""Nystrom attention: three softmaxes through averaged landmarks, the middle one inverted by an iteration.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class NystromAttention(nn.Module):
    def __init__(self, dim=32, heads=4, num_landmarks=4, iterations=12):
        super().__init__()
        self.heads, self.m, self.iterations = heads, num_landmarks, iterations
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)

    def inverse(self, a):
        z = a.mT / (a.abs().sum(-1).amax((-1, -2)) * a.abs().sum(-2).amax((-1, -2)))[:, None, None, None]
        eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        for _ in range(self.iterations):
            az = a @ z
            z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
        return z

    def forward(self, x):
        n = x.shape[1]
        pad = -n % self.m
        x = F.pad(x, (0, 0, pad, 0))
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = q * q.shape[-1] ** -0.5
        ql, kl = (t.unflatten(2, (self.m, -1)).mean(3) for t in (q, k))
        one, two, three = (q @ kl.mT).softmax(-1), (ql @ kl.mT).softmax(-1), (ql @ k.mT).softmax(-1)
        y = one @ self.inverse(two) @ (three @ v)
        return self.to_out(y.transpose(1, 2).flatten(2))[:, -n:]


def build() -> nn.Module:
    return NystromAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
