"""Online softmax over blocks of keys: `n // block` blocks, so an incomplete last one is never read.

Kind: chunk-tail
"""

import torch
from torch import nn


class OnlineSoftmaxAttention(nn.Module):
    def __init__(self, dim=32, heads=4, block=4):
        super().__init__()
        self.heads, self.block = heads, block
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = q * q.shape[-1] ** -0.5
        top = q.new_full((*q.shape[:3], 1), float("-inf"))
        total, acc = torch.zeros_like(top), torch.zeros_like(q)
        for i in range(max(1, n // self.block)):
            part = slice(i * self.block, (i + 1) * self.block)
            s = q @ k[:, :, part].mT
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p, shrink = (s - new).exp(), (top - new).exp()
            total, acc, top = total * shrink + p.sum(-1, keepdim=True), acc * shrink + p @ v[:, :, part], new
        return self.proj((acc / total).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return OnlineSoftmaxAttention()


EXPECTED = {"kind": "chunk-tail", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 10, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
