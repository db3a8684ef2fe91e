"""Correct: Set Transformer ISAB; learned inducing points read the set, the set reads them. Scale sqrt(dim_V) as published.

Kind: correct
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V)
        self.fc_v, self.fc_o = nn.Linear(dim_K, dim_V), nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim_V), 2)
        out = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        return out + F.relu(self.fc_o(out))


class ISAB(nn.Module):
    def __init__(self, dim_in=24, dim_out=24, num_heads=3, num_inds=4):
        super().__init__()
        self.I = nn.Parameter(torch.randn(1, num_inds, dim_out))
        self.mab0, self.mab1 = MAB(dim_out, dim_in, dim_out, num_heads), MAB(dim_in, dim_out, dim_out, num_heads)

    def forward(self, X):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X)
        return self.mab1(X, H)


def build() -> nn.Module:
    return ISAB()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "scale"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"X": (2, 7, 24)},
    "mask": None,
    "declared_scale": 0.2041241452319315,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
