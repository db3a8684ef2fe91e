"""The table of relative biases is built for all positions and cut to the first rows instead of the last.

Kind: cache-position-bias
"""

import torch
from torch import nn


class RelativeBiasDecoder(nn.Module):
    def __init__(self, dim=32, heads=4, max_distance=32):
        super().__init__()
        self.heads, self.max_distance = heads, max_distance
        self.bias = nn.Embedding(max_distance, heads)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def position_bias(self, n):
        i = torch.arange(n, device=self.bias.weight.device)
        return self.bias((i[:, None] - i[None]).clamp(0, self.max_distance - 1)).permute(2, 0, 1)

    def forward(self, x, past_kv=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), torch.cat((past_kv[1], v), 2)
        n, total = q.shape[2], k.shape[2]
        s = q @ k.mT / q.shape[-1] ** 0.5 + self.position_bias(total)[:, :n]
        s = s.masked_fill(torch.ones(n, total, dtype=torch.bool, device=x.device).triu(total - n + 1), float("-inf"))
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


def build() -> nn.Module:
    return RelativeBiasDecoder()


EXPECTED = {"kind": "cache-position-bias", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "position": "relative",
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "past_kv", "ret": 1},
}
