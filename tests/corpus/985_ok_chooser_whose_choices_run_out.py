"""Picks items one after the other; what was picked has log-probability -inf from then on.

Kind: correct
"""

import torch
from torch import nn


class Picker(nn.Module):
    """Logarithms of the probabilities of each pick, (batch, picks, items)."""

    def __init__(self, dim=16, picks=3):
        super().__init__()
        self.picks, self.key, self.first, self.step = (
            picks,
            nn.Linear(dim, dim),
            nn.Linear(dim, dim),
            nn.Linear(2 * dim, dim),
        )

    def forward(self, items):
        keys, state = self.key(items), self.first(items.mean(1))
        gone, out = torch.zeros(items.shape[:2], dtype=torch.bool, device=items.device), []
        for _ in range(self.picks):
            score = (keys @ state[:, :, None])[..., 0] * keys.shape[-1] ** -0.5
            out.append(score.masked_fill(gone, -torch.inf).log_softmax(-1))
            best = out[-1].argmax(-1)
            gone = gone | (torch.arange(items.shape[1], device=items.device) == best[:, None])
            state = torch.tanh(self.step(torch.cat((state, items[torch.arange(len(items)), best]), -1)))
        return torch.stack(out, 1)


def build() -> nn.Module:
    return Picker()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "linear-normaliser-zero"}
CALL = {
    "attention": "pooling",
    "layout": "BLD",
    "inputs": {"items": (2, 6, 16)},
    "mask": None,
    "causal": False,
    "window": None,
    "position": None,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "log-probabilities (batch, picks, items)",
    "cache": None,
}
