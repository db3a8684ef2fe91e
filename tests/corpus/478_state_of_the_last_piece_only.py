"""Causal linear attention in pieces: the state is that of the piece before, and what came earlier is lost.

Kind: chunk-boundary
"""

import torch
from torch import nn


class PieceByPiece(nn.Module):
    """Causal; every token reads all tokens before it. `piece` is there to save memory."""

    def __init__(self, dim=12, piece=3):
        super().__init__()
        self.piece = piece
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = self.q(x).sigmoid(), self.k(x).sigmoid(), self.v(x)
        state, total, out = 0.0, 0.0, []
        for a, b, c in zip(*(t.split(self.piece, 1) for t in (q, k, v)), strict=True):
            w = (a @ b.mT).tril()
            top = w @ c + (a @ state if torch.is_tensor(state) else 0.0)
            out.append(top / (w.sum(-1, keepdim=True) + (a * total).sum(-1, keepdim=True)))
            state, total = b.mT @ c, b.sum(1, keepdim=True)
        return self.o(torch.cat(out, 1))


def build() -> nn.Module:
    return PieceByPiece()


EXPECTED = {"kind": "chunk-boundary", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 10, 12)},
    "mask": None,
    "causal": True,
    "embed_dim": 12,
    "heads": 1,
    "head_dim": 12,
    "returns": "out",
}
