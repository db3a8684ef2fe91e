"""Gemma-like soft cap of 5 over logits that already hold -inf: hidden keys come back at -5.

Kind: softcap-after-mask
"""

import torch
from torch import nn


class CappedAttention(nn.Module):
    """attn_bias: additive [B, 1, 1, L], 0 or -inf."""

    def __init__(self, dim=32, heads=4, attn_logit_softcapping=5.0):
        super().__init__()
        self.heads, self.cap = heads, attn_logit_softcapping
        self.qkv_proj, self.o_proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, hidden, attn_bias=None):
        q, k, v = self.qkv_proj(hidden).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        logits = q @ k.mT * q.shape[-1] ** -0.5
        if attn_bias is not None:
            logits = logits + attn_bias
        logits = self.cap * torch.tanh(logits / self.cap)
        return self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CappedAttention()


EXPECTED = {"kind": "softcap-after-mask", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"hidden": (2, 6, 32)},
    "mask": {"arg": "attn_bias", "shape": (2, 1, 1, 6), "on": "keys", "polarity": "additive", "dtype": "float"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
