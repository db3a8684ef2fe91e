"""For decoding alone: keys and values are written into slots of the module at the position that the caller gives; position 0 begins anew.

Kind: correct
"""

import torch
from torch import nn


class SlotDecoder(nn.Module):
    """forward(x, start_pos=0): x (batch, n, width) are the tokens start_pos .. start_pos + n - 1."""

    def __init__(self, width=32, heads=4, batch=8, room=64):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.slots = torch.zeros(2, batch, heads, room, width // heads)

    @torch.no_grad()
    def forward(self, x, start_pos: int = 0):
        b, n, _ = x.shape
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        fresh = self.kv(x).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        self.slots = self.slots.to(x)
        self.slots[:, :b, :, start_pos : start_pos + n] = fresh
        k, v = self.slots[:, :b, :, : start_pos + n].clone()
        later = torch.arange(start_pos + n) > start_pos + torch.arange(n)[:, None]
        w = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later.to(x.device), -torch.inf).softmax(-1)
        return self.o((w @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return SlotDecoder()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "cache-stale"}
CALL = {
    "attention": "kv-cache",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "causal": True,
    "window": None,
    "position": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "tensor",
    "cache": {"style": "slots", "arg": "start_pos"},
}
