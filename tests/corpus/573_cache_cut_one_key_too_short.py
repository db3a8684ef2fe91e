"""A sliding window of 4 in one call; the cache keeps 2 old keys, so that decoding sees 3.

Kind: window-off-by-one
"""

import torch
from torch import nn


class SlidingCache(nn.Module):
    def __init__(self, dim=32, heads=4, sliding_window=4):
        super().__init__()
        self.heads, self.sliding_window = heads, sliding_window
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, state=None):
        """A token sees itself and the sliding_window - 1 tokens before it. state: (keys, values) -> (out, state)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if state is not None:
            k, v = torch.cat((state[0], k), 2), torch.cat((state[1], v), 2)
        gap = torch.arange(k.size(2) - q.size(2), k.size(2))[:, None] - torch.arange(k.size(2))
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill((gap < 0) | (gap >= self.sliding_window), -1e9)
        old = self.sliding_window - 2
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k[:, :, -old:], v[:, :, -old:])


def build() -> nn.Module:
    return SlidingCache()


EXPECTED = {"kind": "window-off-by-one", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 32)},
    "mask": None,
    "causal": True,
    "window": 4,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "(out, cache)",
    "cache": {"style": "tuple", "arg": "state", "ret": 1},
}
