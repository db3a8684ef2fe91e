"""The causal buffer is used only where its size fits exactly; shorter inputs are bidirectional.

Kind: causal-missing
"""

import torch
from torch import nn


class FixedBufferDecoder(nn.Module):
    """Autoregressive attention over at most 16 tokens."""

    def __init__(self, dim=24, heads=2, max_len=16):
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("causal_mask", torch.triu(torch.full((max_len, max_len), float("-inf")), 1))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / q.size(-1) ** 0.5
        if s.shape[-2:] == self.causal_mask.shape:
            s = s + self.causal_mask
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return FixedBufferDecoder()


EXPECTED = {"kind": "causal-missing", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 24)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 2,
    "head_dim": 12,
    "returns": "out",
}
