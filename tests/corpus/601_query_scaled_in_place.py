"""`q *= scale` on the caller's tensor: calling twice gives another result.

Kind: input-mutated
"""

import torch
from torch import nn


class FunctionalAttention(nn.Module):
    """query, key, value: (B, H, T, D)."""

    def forward(self, query, key, value):
        query *= query.shape[-1] ** -0.5
        weights = torch.softmax(query @ key.transpose(-2, -1), dim=-1)
        return weights @ value, weights


def build() -> nn.Module:
    return FunctionalAttention()


EXPECTED = {"kind": "input-mutated", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BHLD",
    "inputs": {"query": (2, 2, 5, 8), "key": (2, 2, 7, 8), "value": (2, 2, 7, 8)},
    "query_arg": "query",
    "context_arg": "key",
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "(out, weights)",
}
