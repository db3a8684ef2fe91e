"""Correct: the sum over the objects of a scene is divided by their number.

Kind: correct
"""

import torch
from torch import nn


class SceneVector(nn.Module):
    """Objects of a scene look at each other; what they found becomes one vector."""

    def __init__(self, dim=24, heads=3, most=32):
        super().__init__()
        self.most = most
        self.look = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.read = nn.Sequential(nn.Linear(dim, dim), nn.GELU())

    def forward(self, objects, num_objects):
        beyond = torch.arange(objects.size(1), device=objects.device) >= num_objects[:, None]
        found, _ = self.look(objects, objects, objects, key_padding_mask=beyond, need_weights=False)
        found = self.read(objects + found).masked_fill(beyond[..., None], 0.0)
        return found.sum(1) / num_objects[:, None]


def build() -> nn.Module:
    return SceneVector()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "padding-leak-nonattention"}
CALL = {
    "attention": "pool",
    "layout": "BLD",
    "inputs": {"objects": (3, 6, 24)},
    "mask": {"arg": "num_objects", "shape": (3,), "on": "keys", "polarity": "keep", "dtype": "long"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
