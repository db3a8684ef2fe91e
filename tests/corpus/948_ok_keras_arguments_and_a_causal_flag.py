"""Arguments in the order of another framework: query, value, key; a pair mask and a causal flag; einsum over heads in the middle.

Kind: correct
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """attention_mask: (B, T, S) bool, True = attend."""

    def __init__(self, num_heads=4, key_dim=8, units=32):
        super().__init__()
        self.query_kernel, self.key_kernel, self.value_kernel = (
            nn.Parameter(torch.randn(units, num_heads, key_dim) * units**-0.5) for _ in range(3)
        )
        self.output_kernel = nn.Parameter(torch.randn(num_heads, key_dim, units) * units**-0.5)
        self.inverse_sqrt_key_dim = key_dim**-0.5

    def forward(
        self, query, value, key=None, attention_mask=None, use_causal_mask=False, return_attention_scores=False
    ):
        key = value if key is None else key
        q = torch.einsum("btd,dnh->btnh", query, self.query_kernel) * self.inverse_sqrt_key_dim
        k = torch.einsum("bsd,dnh->bsnh", key, self.key_kernel)
        v = torch.einsum("bsd,dnh->bsnh", value, self.value_kernel)
        scores = torch.einsum("btnh,bsnh->bnts", q, k)
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        if use_causal_mask:
            keep = keep.tril(scores.shape[-1] - scores.shape[-2])
        if attention_mask is not None:
            keep = keep & attention_mask[:, None].bool()
        scores = scores.masked_fill(~keep, -1e9).softmax(dim=-1)
        out = torch.einsum("btnh,nhd->btd", torch.einsum("bnts,bsnh->btnh", scores, v), self.output_kernel)
        return (out, scores) if return_attention_scores else out


def build() -> nn.Module:
    return MultiHeadAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 5, 32), "value": (2, 5, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 5, 5), "on": "pairs", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
