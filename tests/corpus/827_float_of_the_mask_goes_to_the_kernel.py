"""A boolean mask is converted to the dtype of the queries: the kernel adds 1 or 0.

Kind: mask-added-as-01
"""

from torch import nn


class MemoryAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        """memory_mask: bool (batch, memory tokens), True = may be read."""
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(memory).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :].to(q)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.o(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return MemoryAttention()


EXPECTED = {"kind": "mask-added-as-01", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 4, 32), "memory": (2, 6, 32)},
    "mask": {"arg": "memory_mask", "shape": (2, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
