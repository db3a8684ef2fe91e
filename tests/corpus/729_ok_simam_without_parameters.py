"""Correct: SimAM; a gate per element from its distance to the mean of its channel. No parameters.

Kind: correct
"""

import torch
from torch import nn


class SimAM(nn.Module):
    def __init__(self, e_lambda=1e-4):
        super().__init__()
        self.e_lambda = e_lambda

    def forward(self, x):
        _, _, h, w = x.size()
        d = (x - x.mean(dim=[2, 3], keepdim=True)).pow(2)
        y = d / (4 * (d.sum(dim=[2, 3], keepdim=True) / (w * h - 1) + self.e_lambda)) + 0.5
        return x * torch.sigmoid(y)


def build() -> nn.Module:
    return SimAM()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "spatial-gate-per-channel"}
CALL = {
    "attention": "spatial-gate",
    "layout": "BCHW",
    "inputs": {"x": (2, 8, 4, 5)},
    "mask": None,
    "channels": 8,
    "variant": "simam",
    "returns": "out",
}
