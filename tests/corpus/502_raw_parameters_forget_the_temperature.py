"""One weight tensor per role, used with einsum; there is no temperature at all.

Kind: scale-missing
"""

import torch
from torch import nn


class EinsumAttention(nn.Module):
    def __init__(self, model_dim: int = 40, n: int = 5, dim: int = 8):
        super().__init__()
        self.WQ = nn.Parameter(torch.randn(n, model_dim, dim) * model_dim**-0.5)
        self.WK = nn.Parameter(torch.randn(n, model_dim, dim) * model_dim**-0.5)
        self.WV = nn.Parameter(torch.randn(n, model_dim, dim) * model_dim**-0.5)
        self.WO = nn.Parameter(torch.randn(n, dim, model_dim) * model_dim**-0.5)

    def forward(self, embeddings):
        Q = torch.einsum("bse,nek->bnsk", embeddings, self.WQ)
        K = torch.einsum("bse,nek->bnsk", embeddings, self.WK)
        V = torch.einsum("bse,nek->bnsk", embeddings, self.WV)
        A = torch.einsum("bnik,bnjk->bnij", Q, K)
        A = torch.softmax(A, dim=-1)
        return torch.einsum("bnij,bnjk,nke->bie", A, V, self.WO)


def build() -> nn.Module:
    return EinsumAttention()


EXPECTED = {"kind": "scale-missing", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"embeddings": (2, 6, 40)},
    "mask": None,
    "embed_dim": 40,
    "heads": 5,
    "head_dim": 8,
    "returns": "out",
}
