"""Without a mask the module takes ones: 1 is a thread. The ones and zeros are added to the logits as they are.

Kind: mask-added-as-01
"""

import torch
from torch import nn


class LoomAttention(nn.Module):
    """Threads of a cloth attend to each other, with a gate on what they read."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.gate, self.out = (nn.Linear(width, width) for _ in range(5))

    def forward(self, cloth, thread_mask=None):
        if thread_mask is None:
            thread_mask = cloth.new_ones(cloth.shape[:2])
        q, k, v = (f(cloth).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        logits = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
        logits = logits + thread_mask[:, None, None, :]
        read = torch.einsum("bhij,bjhd->bihd", logits.softmax(-1), v).flatten(2)
        return self.out(read * torch.sigmoid(self.gate(cloth)))


def build() -> nn.Module:
    return LoomAttention()


EXPECTED = {"kind": "mask-added-as-01", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"cloth": (2, 7, 24)},
    "mask": {"arg": "thread_mask", "shape": (2, 7), "on": "self", "polarity": "keep", "dtype": "float"},
    "causal": False,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
