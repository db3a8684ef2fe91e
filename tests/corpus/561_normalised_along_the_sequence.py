"""QK-norm over the sequence axis instead of the head channels: a token's logits depend on the other tokens' keys.

Kind: qknorm-wrong
"""

import torch
import torch.nn.functional as F
from torch import nn


class CosineAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), 2.3))
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        """Cosine similarity between q and k, times a learned temperature."""
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)
        attn = (q @ k.mT * self.logit_scale.exp()).softmax(-1)
        return self.to_out((attn @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CosineAttention()


EXPECTED = {"kind": "qknorm-wrong", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "qk_norm": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "probe": {"qkv": "to_qkv", "heads": 4},
}
