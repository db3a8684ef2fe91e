"""Correct: a preallocated cache written at input_pos; keys after the last written place are hidden.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class KVCache(nn.Module):
    def __init__(self, max_batch_size, max_seq_length, n_heads, head_dim):
        super().__init__()
        shape = (max_batch_size, n_heads, max_seq_length, head_dim)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    def update(self, input_pos, k_val, v_val):
        n = k_val.shape[0]
        self.k_cache[:n, :, input_pos] = k_val
        self.v_cache[:n, :, input_pos] = v_val
        return self.k_cache[:n], self.v_cache[:n]


class Attention(nn.Module):
    def __init__(self, dim=32, n_head=4, max_batch_size=4, max_seq_length=32):
        super().__init__()
        self.n_head, self.head_dim = n_head, dim // n_head
        self.wqkv, self.wo = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.kv_cache = KVCache(max_batch_size, max_seq_length, n_head, self.head_dim)
        self.register_buffer("causal_mask", torch.tril(torch.ones(max_seq_length, max_seq_length, dtype=torch.bool)))

    def forward(self, x, input_pos=None):
        """input_pos: long [T], where the tokens of x stand; None = no cache."""
        bsz, seqlen, _ = x.shape
        q, k, v = (t.view(bsz, seqlen, self.n_head, -1).transpose(1, 2) for t in self.wqkv(x).chunk(3, dim=-1))
        if input_pos is None:
            mask = self.causal_mask[:seqlen, :seqlen]
        else:
            mask = self.causal_mask[None, None, input_pos]
            k, v = self.kv_cache.update(input_pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-occupancy"}
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
