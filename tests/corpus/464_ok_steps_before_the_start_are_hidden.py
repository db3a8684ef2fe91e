"""Each head looks at four earlier steps, as far apart as its stride; places before the start are read at 0 and hidden.

Kind: correct
"""

import torch
from torch import nn


class StrideHeads(nn.Module):
    """Causal; head h looks 0, r, 2 r and 3 r steps back, r = 3 ** h."""

    def __init__(self, dim=16, heads=2, steps=4):
        super().__init__()
        self.heads, self.steps = heads, steps
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        t = torch.arange(x.shape[1], device=x.device)[:, None]
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        out = []
        for h in range(self.heads):
            at = t - 3**h * torch.arange(self.steps, device=x.device)
            kh, vh = (u[:, :, h][:, at.clamp_min(0)] for u in (k, v))  # (B, L, steps, d)
            s = (q[:, :, h, None] @ kh.mT)[:, :, 0] * q.shape[-1] ** -0.5
            w = s.masked_fill(at < 0, -torch.inf).softmax(-1)
            out.append((w[:, :, None] @ vh)[:, :, 0])
        return self.o(torch.cat(out, -1))


def build() -> nn.Module:
    return StrideHeads()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "head-split-order"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 16)},
    "mask": None,
    "causal": True,
    "embed_dim": 16,
    "heads": 2,
    "head_dim": 8,
    "returns": "out",
}
