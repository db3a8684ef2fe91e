"""Correct: [B, T, H, d] throughout with einsum, explicit attention_mask (B, T, S), scores returned on request.

Kind: correct
"""

import torch
from torch import nn


class KerasLikeMHA(nn.Module):
    """attention_mask: bool (B, T, S), True = attend."""

    def __init__(self, num_heads=3, key_dim=8, dim=20):
        super().__init__()
        self.scale = key_dim**-0.5
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(dim, num_heads, key_dim) * 0.2) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(num_heads, key_dim, dim) * 0.2)

    def forward(self, query, value, key=None, attention_mask=None, return_attention_scores=False):
        key = value if key is None else key
        q = torch.einsum("abc,cde->abde", query, self.wq) * self.scale
        k, v = torch.einsum("abc,cde->abde", key, self.wk), torch.einsum("abc,cde->abde", value, self.wv)
        scores = torch.einsum("aecd,abcd->acbe", k, q)
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask[:, None], torch.finfo(scores.dtype).min)
        scores = torch.softmax(scores, dim=-1)
        out = torch.einsum("abcd,cde->abe", torch.einsum("acbe,aecd->abcd", scores, v), self.wo)
        return (out, scores) if return_attention_scores else out


def build() -> nn.Module:
    return KerasLikeMHA()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis-head"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 4, 20), "value": (2, 6, 20)},
    "query_arg": "query",
    "context_arg": "value",
    "mask": {"arg": "attention_mask", "shape": (2, 4, 6), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 20,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
    "options": {"return_attention_scores": [False, True]},
}
