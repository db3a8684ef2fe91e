"""A learned number per head and distance, one table for pairs of the same segment and one for pairs of two. Nothing is hidden.

Kind: correct
"""

import torch
from torch import nn


class KinBias(nn.Module):
    """segments (batch, n), integer. Whatever they are, all tokens of a row see each other."""

    def __init__(self, width=24, heads=3, reach=4):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.mix_in, self.mix_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.within = nn.Parameter(torch.randn(2 * reach + 1, heads))
        self.across = nn.Parameter(torch.randn(2 * reach + 1, heads))

    def bias(self, n, segments):
        place = torch.arange(n)
        gap = (place - place[:, None]).clamp(-self.reach, self.reach) + self.reach
        if segments is None:
            return self.within[gap].permute(2, 0, 1)
        kin = segments[:, :, None, None] == segments[:, None, :, None]
        return torch.where(kin, self.within[gap], self.across[gap]).permute(0, 3, 1, 2)

    def forward(self, x, segments=None):
        q, k, v = self.mix_in(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5 + self.bias(x.shape[1], segments), -1)
        return self.mix_out((weights @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return KinBias()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-fill-weak"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 7, 24)},
    "mask": None,
    "position": "relative",
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
