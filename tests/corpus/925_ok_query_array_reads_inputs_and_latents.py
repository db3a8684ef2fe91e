"""Perceiver IO in small: inputs to latents, latents to outputs, widths all different.

Kind: correct
"""

import torch
from torch import nn


class Cross(nn.Module):
    def __init__(self, q_dim, kv_dim, heads=2, head_dim=8):
        super().__init__()
        inner = heads * head_dim
        self.heads, self.scale = heads, head_dim**-0.5
        self.q, self.kv, self.o = nn.Linear(q_dim, inner), nn.Linear(kv_dim, 2 * inner), nn.Linear(inner, q_dim)

    def forward(self, x, context, mask=None):
        b = x.shape[0]
        q, k, v = (
            t.view(b, t.shape[1], self.heads, -1).transpose(1, 2) for t in (self.q(x), *self.kv(context).chunk(2, -1))
        )
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        return self.o((sim.softmax(-1) @ v).transpose(1, 2).flatten(2))


class PerceiverIO(nn.Module):
    """data: (b, n, 24); queries: (b, m, 16); mask: (b, n) True = valid"""

    def __init__(self, dim=24, queries_dim=16, num_latents=6, latent_dim=32):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim))
        self.encode, self.process, self.decode = (
            Cross(latent_dim, dim),
            Cross(latent_dim, latent_dim),
            Cross(queries_dim, latent_dim),
        )

    def forward(self, data, queries, mask=None):
        z = self.latents.expand(data.shape[0], -1, -1)
        z = z + self.encode(z, data, mask)
        z = z + self.process(z, z)
        return queries + self.decode(queries, z)


def build() -> nn.Module:
    return PerceiverIO()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"data": (2, 9, 24), "queries": (2, 5, 16)},
    "mask": {"arg": "mask", "shape": (2, 9), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "returns": "out",
}
