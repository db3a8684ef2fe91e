"""`j < i`: the first token may see nothing, and with a finite fill it sees everything.

Kind: causal-strict
"""

import torch
from torch import nn


class DecoderAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        pos = torch.arange(n, device=x.device)
        causal_mask = pos[None, :] < pos[:, None]
        s = (q @ k.mT) / q.shape[-1] ** 0.5
        s = torch.where(causal_mask, s, torch.full_like(s, -1e9))
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return DecoderAttention()


EXPECTED = {"kind": "causal-strict", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
