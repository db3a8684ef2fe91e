"""The buffers are cleared, but the number of tokens seen is not: the next sequence attends to empty slots in front of it.

Kind: cache-stale
"""

import torch
import torch.nn.functional as F
from torch import nn


class BufferedDecoder(nn.Module):
    """Stateful decoding; call reset_cache() before each new sequence."""

    def __init__(self, dim=32, heads=4, max_len=64):
        super().__init__()
        self.heads, self.max_len, self.seen = heads, max_len, 0
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.keys = self.values = None

    def reset_cache(self):
        if self.keys is not None:
            self.keys.zero_()
            self.values.zero_()

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.keys is None or self.keys.shape[0] != x.shape[0]:
            shape = (x.shape[0], self.heads, self.max_len, q.shape[-1])
            self.keys, self.values = torch.zeros(shape, dtype=x.dtype), torch.zeros(shape, dtype=x.dtype)
            self.seen = 0
        end = self.seen + x.shape[1]
        self.keys[:, :, self.seen : end], self.values[:, :, self.seen : end] = k.detach(), v.detach()
        keep = torch.ones(x.shape[1], end, dtype=torch.bool).tril(self.seen)
        self.seen = end
        y = F.scaled_dot_product_attention(q, self.keys[:, :, :end], self.values[:, :, :end], attn_mask=keep)
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return BufferedDecoder()


EXPECTED = {"kind": "cache-stale", "severity": "error"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 8, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
    "cache": {"style": "internal", "reset": "reset_cache"},
}
