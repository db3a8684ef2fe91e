"""Heads are put on the batch axis by a concatenation (head major) and taken back as if it were batch major.

Kind: batch-cross-talk
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    def __init__(self, num_units=32, num_heads=4):
        super().__init__()
        self.num_units, self.num_heads = num_units, num_heads
        self.Q_proj, self.K_proj, self.V_proj = (
            nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU()) for _ in range(3)
        )

    def forward(self, queries, keys):
        Q, K, V = self.Q_proj(queries), self.K_proj(keys), self.V_proj(keys)
        Q_, K_, V_ = (torch.cat(torch.chunk(t, self.num_heads, dim=2), dim=0) for t in (Q, K, V))  # (h*N, T, C/h)
        outputs = torch.bmm(Q_, K_.permute(0, 2, 1)) / (K_.size(2) ** 0.5)
        outputs = torch.bmm(F.softmax(outputs, dim=-1), V_)
        n, t, _ = queries.shape
        outputs = outputs.view(n, self.num_heads, t, -1).transpose(1, 2).reshape(n, t, -1)
        return outputs + queries


def build() -> nn.Module:
    return MultiheadAttention()


EXPECTED = {"kind": "batch-cross-talk", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"queries": (3, 5, 32), "keys": "queries"},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
