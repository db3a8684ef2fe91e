"""The kernel's is_causal aligns the triangle at the top left; with a cache each query then sees the oldest keys only.

Kind: causal-alignment
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, hidden_size=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.v_proj, self.o_proj = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, past_key_value=None, use_cache=False):
        shape = (*hidden_states.shape[:2], self.num_heads, -1)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_value is not None:
            k = torch.cat((past_key_value[0], k), dim=2)
            v = torch.cat((past_key_value[1], v), dim=2)
        present = (k, v) if use_cache else None
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(2)), present


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "causal-alignment", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "past_key_value", "ret": 1},
}
