"""Causal linear attention in chunks: each chunk starts with an empty state.

Kind: chunk-boundary
"""

import torch
import torch.nn.functional as F
from torch import nn


class ChunkedLinearAttention(nn.Module):
    """Causal over the whole sequence; `chunk` only saves memory."""

    def __init__(self, dim=16, heads=2, chunk=4):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        out = []
        for qc, kc, vc in zip(*(t.split(self.chunk, 2) for t in (q, k, v))):
            state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=x.dtype, device=x.device)
            total = torch.zeros(*q.shape[:2], q.shape[-1], dtype=x.dtype, device=x.device)
            w = (qc @ kc.mT).tril()
            top = w @ vc + qc @ state
            bottom = w.sum(-1) + torch.einsum("bhnd,bhd->bhn", qc, total)
            state, total = state + kc.mT @ vc, total + kc.sum(2)
            out.append(top / (bottom[..., None] + 1e-6))
        return self.proj(torch.cat(out, 2).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return ChunkedLinearAttention()


EXPECTED = {"kind": "chunk-boundary", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 16)},
    "mask": None,
    "causal": True,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
