"""Correct: AFT-full; exponentials of keys and of a position bias weight the values, per channel. Fixed length.

Kind: correct
"""

import torch
from torch import nn


class AFTFull(nn.Module):
    def __init__(self, d_model=20, n=8):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v = (
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
        )
        self.position_biases = nn.Parameter(torch.randn(n, n) * 0.3)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = torch.sigmoid(self.fc_q(x)), self.fc_k(x), self.fc_v(x)
        k = torch.exp(k - k.amax(1, keepdim=True))
        w = torch.exp(self.position_biases[:n, :n])
        return q * torch.einsum("ts,bsd->btd", w, k * v) / torch.einsum("ts,bsd->btd", w, k)


def build() -> nn.Module:
    return AFTFull()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "linear-normaliser-wrong"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 20)},
    "mask": None,
    "position": "learned",
    "embed_dim": 20,
    "heads": 1,
    "head_dim": 20,
    "returns": "out",
}
