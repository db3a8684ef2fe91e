"""nn.MultiheadAttention stays sequence-first, and what it gets is (environments, players, channels).

Kind: batch-first
"""

from torch import nn


class Players(nn.Module):
    """Players of one room see each other.

    view (num_envs, players, channels)
    """

    def __init__(self, channels=28, heads=2):
        super().__init__()
        self.look = nn.MultiheadAttention(channels, heads)
        self.norm = nn.LayerNorm(channels)

    def forward(self, view):
        seen, _ = self.look(view, view, view, need_weights=False)
        return self.norm(view + seen)


def build() -> nn.Module:
    return Players()


EXPECTED = {"kind": "batch-first", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"view": (3, 5, 28)},
    "mask": None,
    "embed_dim": 28,
    "heads": 2,
    "head_dim": 14,
    "returns": "out",
}
