"""Recurrent state with a forget gate per key channel, read by the queries; a loop over time.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearAttention(nn.Module):
    def __init__(self, dim=32, heads=2, gate_logit_normalizer=16):
        super().__init__()
        self.heads, self.norm = heads, gate_logit_normalizer
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gk_proj = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v, gk = (
            f(x).unflatten(-1, (self.heads, -1)) for f in (self.q_proj, self.k_proj, self.v_proj, self.gk_proj)
        )
        q, gk = q * q.shape[-1] ** -0.5, F.logsigmoid(gk) / self.norm
        s = x.new_zeros(x.shape[0], self.heads, k.shape[-1], v.shape[-1])
        out = []
        for t in range(x.shape[1]):
            s = s * gk[:, t].exp()[..., None] + k[:, t][..., None] * v[:, t][..., None, :]
            out.append(torch.einsum("bhd,bhde->bhe", q[:, t], s))
        return self.o_proj(torch.stack(out, 1).flatten(2))


def build() -> nn.Module:
    return GatedLinearAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 32)},
    "mask": None,
    "causal": True,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
