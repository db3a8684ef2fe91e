"""The output of empty items is replaced with torch.where after the NaN was made: the gradient is NaN all the same.

Kind: fully-masked-nan-backward
"""

import torch
from torch import nn


class GuardedRead(nn.Module):
    """mask: bool [B, S], True = key is real; an item may have none."""

    def __init__(self, dim=24):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, context, mask=None):
        sim = torch.einsum("bid,bjd->bij", self.q(x), self.k(context)) * x.shape[-1] ** -0.5
        if mask is None:
            return sim.softmax(-1) @ self.v(context)
        bias = torch.where(mask, 0.0, -torch.inf).to(sim.dtype)
        out = (sim + bias[:, None]).softmax(-1) @ self.v(context)
        return torch.where(mask.any(-1)[:, None, None], out, torch.zeros_like(out))


def build() -> nn.Module:
    return GuardedRead()


EXPECTED = {"kind": "fully-masked-nan-backward", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"x": (2, 3, 24), "context": (2, 6, 24)},
    "query_arg": "x",
    "context_arg": "context",
    "mask": {"arg": "mask", "shape": (2, 6), "on": "context", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 1,
    "head_dim": 24,
    "returns": "out",
}
