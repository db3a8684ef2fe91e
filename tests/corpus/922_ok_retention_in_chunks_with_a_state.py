"""Retention: decayed inner products within the chunk plus a decayed state for all that came before.

Kind: correct
"""

import torch
from torch import nn


class ChunkRetention(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.register_buffer("log_decay", torch.log1p(-(2.0 ** (-5.0 - torch.arange(heads).double()))).view(-1, 1, 1))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, state=None):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        k = k * k.shape[-1] ** -0.5
        g = self.log_decay.to(x)
        i = torch.arange(n, device=x.device).to(x)
        decay = torch.exp(g * (i[:, None] - i[None])).tril()
        y = (q @ k.mT * decay) @ v
        if state is not None:
            y = y + torch.exp(g * (i[:, None] + 1)) * (q @ state)
        fresh = (k * torch.exp(g * (n - 1 - i)[:, None])).mT @ v
        state = fresh if state is None else fresh + torch.exp(g * n) * state
        return self.proj(y.transpose(1, 2).flatten(2)), state


def build() -> nn.Module:
    return ChunkRetention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "(out, state)",
    "cache": {"style": "tensor", "arg": "state", "ret": 1},
}
