"""Correct: a parameter-free kernel on (B, H, T, D) that works through the queries in chunks, tail included.

Kind: correct
"""

import torch
from torch import nn


class ChunkedAttention(nn.Module):
    def __init__(self, chunk=4):
        super().__init__()
        self.chunk = chunk

    def forward(self, q, k, v, causal=False):
        """q: (B, H, T, D), k, v: (B, H, S, D) -> (B, H, T, D). With causal, T == S."""
        scale, outputs = q.shape[-1] ** -0.5, []
        for start in range(0, q.shape[2], self.chunk):
            block = q[:, :, start : start + self.chunk]
            s = torch.matmul(block * scale, k.transpose(-1, -2))
            if causal:
                i = torch.arange(start, start + block.shape[2], device=q.device)
                s = s.masked_fill(torch.arange(k.shape[2], device=q.device)[None] > i[:, None], float("-inf"))
            outputs.append(torch.matmul(torch.softmax(s, dim=-1), v))
        return torch.cat(outputs, dim=2)


def build() -> nn.Module:
    return ChunkedAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "chunk-tail"}
CALL = {
    "attention": "self",
    "layout": "BHLD",
    "inputs": {"q": (2, 2, 6, 8), "k": "q", "v": "q"},
    "mask": None,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
