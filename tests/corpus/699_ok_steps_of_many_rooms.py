"""nn.MultiheadAttention stays sequence-first, and what it gets is (steps, environments, channels).

Kind: correct
"""

from torch import nn


class Steps(nn.Module):
    """Steps of one room see each other.

    view (steps, num_envs, channels)
    """

    def __init__(self, channels=28, heads=2):
        super().__init__()
        self.look = nn.MultiheadAttention(channels, heads)
        self.norm = nn.LayerNorm(channels)

    def forward(self, view):
        seen, _ = self.look(view, view, view, need_weights=False)
        return self.norm(view + seen)


def build() -> nn.Module:
    return Steps()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "batch-first"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"view": (5, 3, 28)},
    "mask": None,
    "embed_dim": 28,
    "heads": 2,
    "head_dim": 14,
    "returns": "out",
}
