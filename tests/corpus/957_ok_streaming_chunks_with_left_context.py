"""Streaming speech encoder: a frame sees its chunk and one chunk before; frames after the end of the item are hidden.

Kind: correct
"""

import torch
from torch import nn


class StreamingAttention(nn.Module):
    """x: (batch, frames, dim), lengths: (batch,)"""

    def __init__(self, dim=32, heads=4, chunk_size=4, left_chunks=1):
        super().__init__()
        self.heads, self.chunk_size, self.left_chunks = heads, chunk_size, left_chunks
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, lengths=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        t = torch.arange(x.shape[1], device=x.device)
        c = t // self.chunk_size
        keep = (c[None] <= c[:, None]) & (c[None] >= c[:, None] - self.left_chunks)
        if lengths is not None:
            keep = keep & (t < lengths[:, None])[:, None, None]
        w = (
            (q @ k.mT / q.shape[-1] ** 0.5)
            .masked_fill(~keep, torch.finfo(q.dtype).min)
            .softmax(-1)
            .masked_fill(~keep, 0.0)
        )
        return self.proj((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return StreamingAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 32)},
    "mask": {"arg": "lengths", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
