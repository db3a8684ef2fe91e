"""A preallocated cache written at input_pos; the mask covers the new tokens only, and empty slots have logit 0.

Kind: cache-occupancy
"""

import torch
import torch.nn.functional as F
from torch import nn


class StaticCacheAttention(nn.Module):
    def __init__(self, dim=32, n_head=4, max_batch=4, max_len=24):
        super().__init__()
        self.n_head = n_head
        self.wqkv, self.wo = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("cache", torch.zeros(2, max_batch, n_head, max_len, dim // n_head), persistent=False)

    def forward(self, x, input_pos=None):
        """input_pos: long [T], the places of the tokens in the cache; None = no cache."""
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        mask = torch.ones(T, T, dtype=torch.bool).tril()
        if input_pos is not None:
            self.cache[0, :B, :, input_pos], self.cache[1, :B, :, input_pos] = k, v
            k, v = self.cache[0, :B], self.cache[1, :B]
            mask = torch.ones(T, k.size(2), dtype=torch.bool)
            mask[:, input_pos] = torch.ones(T, T, dtype=torch.bool).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


def build() -> nn.Module:
    return StaticCacheAttention()


EXPECTED = {"kind": "cache-occupancy", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "static", "arg": "input_pos"},
}
