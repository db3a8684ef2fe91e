"""Heads stay on the third axis, the letters are unusual, and nothing divides the similarities.

Kind: scale-missing
"""

import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, width=40, n_head=5):
        super().__init__()
        self.n_head = n_head
        self.w_qkv = nn.Parameter(torch.randn(3, width, n_head, width // n_head) * width**-0.5)
        self.w_out = nn.Parameter(torch.randn(n_head, width // n_head, width) * width**-0.5)

    def forward(self, x):
        q, k, v = torch.einsum("zsw,rwgp->rzsgp", x, self.w_qkv)
        similarity = torch.einsum("zsgp,ztgp->zgst", q, k)
        return torch.einsum("zgst,ztgp,gpw->zsw", similarity.softmax(-1), v, self.w_out)


def build() -> nn.Module:
    return Attn()


EXPECTED = {"kind": "scale-missing", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 40)},
    "mask": None,
    "embed_dim": 40,
    "heads": 5,
    "head_dim": 8,
    "returns": "out",
}
