"""|i - j| < window in a module that says it is causal.

Kind: window-symmetric
"""

import torch
from torch import nn


class CausalLocalAttention(nn.Module):
    def __init__(self, dim=32, heads=4, window_size=3, causal=True):
        super().__init__()
        self.heads, self.window_size, self.causal = heads, window_size, causal
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        pos = torch.arange(n, device=x.device)
        far = (pos[:, None] - pos[None, :]).abs() >= self.window_size
        sim = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(far, -torch.finfo(q.dtype).max)
        return self.to_out((sim.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return CausalLocalAttention()


EXPECTED = {"kind": "window-symmetric", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 32)},
    "mask": None,
    "causal": True,
    "window": 3,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
