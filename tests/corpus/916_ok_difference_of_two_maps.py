"""Differential attention: two causal maps, the second subtracted with a learned weight, normed per head.

Kind: correct
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadDiffAttn(nn.Module):
    def __init__(self, embed_dim=32, num_heads=2, depth=1):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads // 2
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(4)
        )
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (
            nn.Parameter(torch.randn(self.head_dim) * 0.1) for _ in range(4)
        )
        self.subln = nn.RMSNorm(2 * self.head_dim, eps=1e-5)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        s = q @ k.transpose(-1, -2) * self.head_dim**-0.5
        s = s + torch.triu(torch.full((n, n), float("-inf"), device=x.device).type_as(s), 1)
        a = F.softmax(s, dim=-1).view(b, self.num_heads, 2, n, n)
        lam = (
            torch.exp((self.lambda_q1 * self.lambda_k1).sum())
            - torch.exp((self.lambda_q2 * self.lambda_k2).sum())
            + self.lambda_init
        )
        y = self.subln((a[:, :, 0] - lam * a[:, :, 1]) @ v) * (1 - self.lambda_init)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, -1))


def build() -> nn.Module:
    return MultiheadDiffAttn()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
