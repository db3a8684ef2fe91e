"""torch.where(mask, very_negative, logits) although True means attend.

Kind: mask-inverted
"""

import torch
from torch import nn


class PerceiverCrossAttention(nn.Module):
    def __init__(self, dim=32, context_dim=20, heads=2):
        super().__init__()
        self.heads = heads
        self.norm, self.norm_context = nn.LayerNorm(dim), nn.LayerNorm(context_dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, context, mask=None):
        """mask: bool [batch, context length], True where the context may be attended."""
        h = self.heads
        q = self.to_q(self.norm(x)).unflatten(-1, (h, -1)).movedim(2, 1)
        k, v = self.to_kv(self.norm_context(context)).unflatten(-1, (2, h, -1)).permute(2, 0, 3, 1, 4)
        sim = q @ k.mT * k.shape[-1] ** -0.5
        if mask is not None:
            lowest = torch.finfo(sim.dtype).min
            sim = torch.where(mask[:, None, None, :], torch.tensor(lowest, dtype=sim.dtype), sim)
        return self.to_out((sim.softmax(-1) @ v).movedim(1, 2).flatten(2))


def build() -> nn.Module:
    return PerceiverCrossAttention()


EXPECTED = {"kind": "mask-inverted", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 4, 32), "context": (2, 7, 20)},
    "query_arg": "x",
    "context_arg": "context",
    "mask": {"arg": "mask", "shape": (2, 7), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
