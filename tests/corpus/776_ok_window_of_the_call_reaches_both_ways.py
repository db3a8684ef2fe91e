"""Correct: a window that the call gives, so far to each side.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class RecentTokens(nn.Module):
    """(batch, time, dim) -> (batch, time, dim); each token looks at recent ones, gathered by unfolding."""

    def __init__(self, dim=24):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, seq, local_window=3):
        before, after = local_window, local_window
        q, k, v = self.q(seq), self.k(seq), self.v(seq)
        keys, values = (
            F.pad(t, (0, 0, before, after)).unfold(1, before + 1 + after, 1) for t in (k, v)
        )  # (B, T, D, W)
        real = F.pad(seq.new_ones(1, seq.shape[1]), (before, after)).unfold(1, before + 1 + after, 1) > 0
        scores = torch.einsum("btd,btdw->btw", q, keys) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~real, float("-inf")).softmax(-1)
        return self.out(torch.einsum("btw,btdw->btd", weights, values))


def build() -> nn.Module:
    return RecentTokens()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "window-off-by-one"}
CALL = {
    "attention": "window",
    "layout": "BLD",
    "inputs": {"seq": (2, 9, 24)},
    "mask": None,
    "embed_dim": 24,
    "heads": 1,
    "returns": "out",
}
