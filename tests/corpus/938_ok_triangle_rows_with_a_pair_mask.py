"""Triangle attention around the starting node: rows of a pair map, biased by the pair (j, k), gated.

Kind: correct
"""

from torch import nn


class TriangleAttention(nn.Module):
    """z: (batch, I, I, channels); mask_2d: (batch, I, I), 1 = pair exists."""

    def __init__(self, c_in=16, c_hidden=8, no_heads=2, inf=1e9):
        super().__init__()
        self.no_heads, self.inf = no_heads, inf
        self.layer_norm, self.linear = nn.LayerNorm(c_in), nn.Linear(c_in, no_heads, bias=False)
        self.q, self.k, self.v, self.g = (nn.Linear(c_in, c_hidden * no_heads, bias=False) for _ in range(4))
        self.o = nn.Linear(c_hidden * no_heads, c_in)

    def forward(self, z, mask_2d=None):
        z = self.layer_norm(z)
        if mask_2d is None:
            mask_2d = z.new_ones(z.shape[:-1])
        mask_bias = (self.inf * (mask_2d.to(z) - 1))[:, :, None, None, :]
        triangle_bias = self.linear(z).permute(0, 3, 1, 2).unsqueeze(1)
        q, k, v, g = (f(z).unflatten(-1, (self.no_heads, -1)).transpose(2, 3) for f in (self.q, self.k, self.v, self.g))
        a = (q * q.shape[-1] ** -0.5) @ k.mT + mask_bias + triangle_bias
        return self.o((a.softmax(-1) @ v * g.sigmoid()).transpose(2, 3).flatten(3))


def build() -> nn.Module:
    return TriangleAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "self",
    "layout": "BLLD",
    "inputs": {"z": (1, 5, 5, 16)},
    "mask": {"arg": "mask_2d", "shape": (1, 5, 5), "on": "pairs", "polarity": "keep", "dtype": "float"},
    "returns": "out",
}
