"""The triangle begins below the diagonal: the first in the queue has no key, and the kernel answers with zeros.

Kind: causal-strict
"""

import torch
import torch.nn.functional as F
from torch import nn


class Queue(nn.Module):
    """Each in a queue reads itself and those before it."""

    def __init__(self, width=20, heads=2, longest=40):
        super().__init__()
        self.heads = heads
        self.maps = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("ahead", torch.ones(longest, longest).triu().bool(), persistent=False)

    def forward(self, queue):
        n = queue.shape[1]
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.maps(queue).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=~self.ahead[:n, :n])
        return self.out(y.transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Queue()


EXPECTED = {"kind": "causal-strict", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"queue": (2, 6, 20)},
    "mask": None,
    "causal": True,
    "embed_dim": 20,
    "heads": 2,
    "head_dim": 10,
    "returns": "out",
}
