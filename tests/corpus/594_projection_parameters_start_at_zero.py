"""nn.Parameter(torch.zeros(..)) for both W_q and W_k: each has the other as a factor of its gradient, and stays zero.

Kind: dead-qk
"""

import torch
from torch import nn


class ParamAttention(nn.Module):
    def __init__(self, d=24, h=3):
        super().__init__()
        self.h = h
        self.w_q = nn.Parameter(torch.zeros(h, d, d // h))
        self.w_k = nn.Parameter(torch.zeros(h, d, d // h))
        self.w_v = nn.Parameter(torch.empty(h, d, d // h))
        self.w_o = nn.Parameter(torch.empty(h, d // h, d))
        for w in (self.w_v, self.w_o):
            nn.init.xavier_uniform_(w)

    def forward(self, x):
        q, k, v = (torch.einsum("btd,hde->bhte", x, w) for w in (self.w_q, self.w_k, self.w_v))
        a = torch.einsum("bhte,bhse->bhts", q, k).mul(q.size(-1) ** -0.5).softmax(dim=-1)
        return torch.einsum("bhts,bhse,hed->btd", a, v, self.w_o)


def build() -> nn.Module:
    return ParamAttention()


EXPECTED = {"kind": "dead-qk", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
