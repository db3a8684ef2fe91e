"""Closeness of all pairs (batch, reader, read, head) is normalised over what is read.

Kind: correct
"""

from torch import nn


class CloseAtoms(nn.Module):
    """Atoms read atoms that are close to them in feature space; atoms: (batch, count, width)."""

    def __init__(self, width=30, heads=5):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.places = nn.Linear(width, 2 * width)
        self.content = nn.Linear(width, width)
        self.back = nn.Linear(width, width)

    def forward(self, atoms):
        mine, theirs = self.places(atoms).unflatten(-1, (2, self.heads, self.size)).unbind(2)
        content = self.content(atoms).unflatten(-1, (self.heads, self.size))
        far = (mine.unsqueeze(2) - theirs.unsqueeze(1)).square().sum(-1)
        share = (-far / self.size).softmax(2)
        read = (share.unsqueeze(-1) * content.unsqueeze(1)).sum(2)
        return atoms + self.back(read.flatten(2))


def build() -> nn.Module:
    return CloseAtoms()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "softmax-axis-head"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"atoms": (2, 7, 30)},
    "mask": None,
    "embed_dim": 30,
    "heads": 5,
    "head_dim": 6,
    "returns": "out",
}
