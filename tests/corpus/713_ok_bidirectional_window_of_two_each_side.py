"""Correct: Longformer-like band, window_size // 2 keys on each side.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class BandAttention(nn.Module):
    def __init__(self, embed_dim=32, num_heads=4, window_size=4):
        super().__init__()
        self.num_heads, self.one_sided = num_heads, window_size // 2
        self.query, self.key, self.value = (nn.Linear(embed_dim, embed_dim) for _ in range(3))

    def forward(self, hidden_states):
        """Every token attends to one_sided = window_size // 2 tokens on each side, and to itself."""
        L = hidden_states.size(1)
        q, k, v = (
            f(hidden_states).view(*hidden_states.shape[:2], self.num_heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        pos = torch.arange(L, device=q.device)
        band = (pos[:, None] - pos[None, :]).abs() <= self.one_sided
        return F.scaled_dot_product_attention(q, k, v, attn_mask=band).transpose(1, 2).flatten(2)


def build() -> nn.Module:
    return BandAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "window-symmetric"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"hidden_states": (2, 9, 32)},
    "mask": None,
    "window": 5,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
