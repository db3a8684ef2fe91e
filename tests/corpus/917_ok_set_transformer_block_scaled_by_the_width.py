"""The block of the set transformer divides by sqrt(dim_V), the full width, as its authors wrote it.

Kind: correct
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MAB(nn.Module):
    def __init__(self, dim_Q=32, dim_K=32, dim_V=32, num_heads=4, ln=True):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k, self.fc_v = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_K, dim_V)
        self.ln0, self.ln1 = nn.LayerNorm(dim_V), nn.LayerNorm(dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        split = self.dim_V // self.num_heads
        Q_, K_, V_ = (torch.cat(t.split(split, 2), 0) for t in (Q, K, V))
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim_V), 2)
        H = self.ln0(torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2))
        return self.ln1(H + F.relu(self.fc_o(H)))


def build() -> nn.Module:
    return MAB()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"Q": (2, 4, 32), "K": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "declared_scale": 0.17677669529663687,
    "returns": "out",
}
