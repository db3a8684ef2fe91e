"""A causal sliding window of w keys lets i - j == w through: w + 1 keys.

Kind: window-off-by-one
"""

import torch
import torch.nn.functional as F
from torch import nn


class MistralLikeAttention(nn.Module):
    """Each token attends to the last `sliding_window` tokens, itself included."""

    def __init__(self, hidden=32, heads=4, sliding_window=3):
        super().__init__()
        self.heads, self.sliding_window = heads, sliding_window
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, hidden_states):
        T = hidden_states.shape[1]
        q, k, v = (
            f(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        full = torch.ones(T, T, dtype=torch.bool, device=q.device)
        visible = full.tril() & full.triu(-self.sliding_window)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=visible).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MistralLikeAttention()


EXPECTED = {"kind": "window-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 10, 32)},
    "mask": None,
    "causal": True,
    "window": 3,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
