"""A pointer scorer multiplies its logits by the keep mask, so that a hidden place has logit 0.

Kind: mask-multiplied
"""

import torch
from torch import nn


class PointerGlimpse(nn.Module):
    """keep: float [B, N], 1 = may be chosen."""

    def __init__(self, dim=16):
        super().__init__()
        self.w_ref, self.w_q = nn.Conv1d(dim, dim, 1), nn.Linear(dim, dim)
        self.v = nn.Parameter(torch.rand(dim))

    def forward(self, query, ref, keep=None):
        """query: [B, M, dim], ref: [B, N, dim] -> glimpse [B, M, dim]."""
        r = self.w_ref(ref.transpose(1, 2)).transpose(1, 2)
        u = torch.tanh(r[:, None] + self.w_q(query)[:, :, None]) @ self.v
        if keep is not None:
            u = u * keep[:, None]
        return torch.softmax(u, -1) @ ref


def build() -> nn.Module:
    return PointerGlimpse()


EXPECTED = {"kind": "mask-multiplied", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 3, 16), "ref": (2, 6, 16)},
    "query_arg": "query",
    "context_arg": "ref",
    "mask": {"arg": "keep", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "float"},
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
}
