"""Grouped heads tiled (k.repeat) where every published checkpoint interleaves them.

Kind: gqa-order
"""

import torch.nn.functional as F
from torch import nn


class LlamaLikeAttention(nn.Module):
    def __init__(self, hidden_size=48, num_attention_heads=6, num_key_value_heads=2):
        super().__init__()
        self.num_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = hidden_size // num_attention_heads
        self.q_proj = nn.Linear(hidden_size, num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_attention_heads * self.head_dim, hidden_size, bias=False)

    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.size()
        q = self.q_proj(hidden_states).view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, self.num_key_value_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, self.num_key_value_heads, self.head_dim).transpose(1, 2)
        groups = self.num_heads // self.num_key_value_heads
        k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(bsz, q_len, -1))


def build() -> nn.Module:
    return LlamaLikeAttention()


EXPECTED = {"kind": "gqa-order", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 6, 48)},
    "mask": None,
    "causal": True,
    "embed_dim": 48,
    "heads": 6,
    "kv_heads": 2,
    "head_dim": 8,
    "returns": "out",
    "probe": {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"},
}
