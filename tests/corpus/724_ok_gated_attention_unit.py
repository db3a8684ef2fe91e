"""Correct: GAU; one head, squared ReLU divided by the length, output gated.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class GAU(nn.Module):
    def __init__(self, dim=24, query_key_dim=12, expansion_factor=2):
        super().__init__()
        hidden = dim * expansion_factor
        self.norm = nn.LayerNorm(dim)
        self.to_hidden = nn.Sequential(nn.Linear(dim, hidden * 2), nn.SiLU())
        self.to_qk = nn.Sequential(nn.Linear(dim, query_key_dim), nn.SiLU())
        self.gamma = nn.Parameter(torch.randn(2, query_key_dim) * 0.5)
        self.beta = nn.Parameter(torch.zeros(2, query_key_dim))
        self.to_out = nn.Linear(hidden, dim)

    def forward(self, x):
        n = x.shape[-2]
        y = self.norm(x)
        v, gate = self.to_hidden(y).chunk(2, dim=-1)
        q, k = (self.to_qk(y).unsqueeze(-2) * self.gamma + self.beta).unbind(dim=-2)
        attn = F.relu(torch.einsum("bid,bjd->bij", q, k) / n) ** 2
        return self.to_out(torch.einsum("bij,bjd->bid", attn, v) * gate) + x


def build() -> nn.Module:
    return GAU()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "scale-wrong-size"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "row_sum": "any",
    "embed_dim": 24,
    "heads": 1,
    "head_dim": 12,
    "returns": "out",
}
