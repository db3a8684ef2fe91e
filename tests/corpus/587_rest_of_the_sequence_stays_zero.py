"""Queries are worked through in whole chunks; the rest of the length division keeps the zeros it was allocated with.

Kind: chunk-tail
"""

import torch
from torch import nn


class SlicedAttention(nn.Module):
    """q, k, v: [B, L, D]."""

    def __init__(self, slice_size=4):
        super().__init__()
        self.slice_size = slice_size

    def forward(self, q, k, v):
        out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=q.dtype, device=q.device)
        step = min(self.slice_size, q.shape[1])
        for i in range(q.shape[1] // step):
            rows = slice(i * step, (i + 1) * step)
            w = torch.softmax(torch.bmm(q[:, rows], k.transpose(1, 2)) * q.shape[-1] ** -0.5, dim=-1)
            out[:, rows] = torch.bmm(w, v)
        return out


def build() -> nn.Module:
    return SlicedAttention()


EXPECTED = {"kind": "chunk-tail", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"q": (2, 7, 16), "k": (2, 6, 16), "v": (2, 6, 16)},
    "query_arg": "q",
    "context_arg": "k",
    "mask": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
}
