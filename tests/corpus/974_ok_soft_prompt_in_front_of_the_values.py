"""Llama adapter: learned prompt keys with a softmax of their own and a gate that starts at zero.

Kind: correct
"""

import torch
from torch import nn


class AdapterAttention(nn.Module):
    """attention_mask: (batch, tokens), 1 = token"""

    def __init__(self, dim=32, heads=4, prompts=3):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.prompt, self.gate = nn.Parameter(torch.randn(1, prompts, dim)), nn.Parameter(torch.zeros(1, heads, 1, 1))

    def forward(self, x, attention_mask=None):
        n = x.shape[1]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        _, pk, pv = self.qkv(self.prompt).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        keep = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None].bool()
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~keep, torch.finfo(q.dtype).min)
        y = s.softmax(-1) @ v + self.gate.tanh() * ((q @ pk.mT / q.shape[-1] ** 0.5).softmax(-1) @ pv)
        return self.proj(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return AdapterAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": {"arg": "attention_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "long"},
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
