"""Candidates of a recommender look into a history of clicks with a length.

Kind: correct
"""

import torch
from torch import nn


class Interest(nn.Module):
    """What each candidate finds in a history. candidates: (users, items, dim); history: (users, clicks, dim);
    history_len: (users,), how many of the clicks are real. Weights are no distribution: how much was found is kept.
    """

    def __init__(self, dim=16):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * dim, 24), nn.Sigmoid(), nn.Linear(24, 1))

    def forward(self, candidates, history, history_len):
        items, clicks = candidates.shape[1], history.shape[1]
        a = candidates[:, :, None].expand(-1, -1, clicks, -1)
        b = history[:, None].expand(-1, items, -1, -1)
        weights = self.score(torch.cat([a, b, a - b, a * b], -1))[..., 0]
        real = torch.arange(clicks)[None] < history_len[:, None]
        return (weights * real[:, None]) @ history


def build() -> nn.Module:
    return Interest()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"candidates": (2, 3, 16), "history": (2, 6, 16)},
    "mask": {"arg": "history_len", "shape": (2,), "on": "keys", "polarity": "lengths", "dtype": "long"},
    "row_sum": "any",
    "returns": "out",
}
