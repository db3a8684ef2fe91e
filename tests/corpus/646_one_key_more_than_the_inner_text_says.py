"""The class inside says that its span counts the current key; the band is one longer.

Kind: window-off-by-one
"""

import torch
import torch.nn.functional as F
from torch import nn


class NearbyPast(nn.Module):
    """Looks back at w_keys keys, the current one among them: with w_keys=1 a query would see its own key and no other.

    The number is the `window` of the layer around it.
    """

    def __init__(self, size, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.wide, self.back = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.wide(x).chunk(3, dim=-1))
        near = torch.ones(n, n, dtype=torch.bool, device=x.device).tril().triu(-self.window)
        return self.back(F.scaled_dot_product_attention(q, k, v, attn_mask=near).transpose(1, 2).flatten(2))


class NearbyLayer(nn.Module):
    def __init__(self, size=32, heads=2, window=5):
        super().__init__()
        self.window = window
        self.norm_a, self.norm_b = nn.LayerNorm(size), nn.LayerNorm(size)
        self.near, self.feed = NearbyPast(size, heads, window), nn.Linear(size, size)

    def forward(self, x):
        x = x + self.near(self.norm_a(x))
        return x + F.gelu(self.feed(self.norm_b(x)))


def build() -> nn.Module:
    return NearbyLayer()


EXPECTED = {"kind": "window-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 12, 32)},
    "mask": None,
    "causal": True,
    "window": 5,
    "embed_dim": 32,
    "heads": 2,
    "head_dim": 16,
    "returns": "out",
}
