"""A loop over the tokens slices keys [t - window : t + 1], which are window + 1 of them.

Kind: window-off-by-one
"""

import torch
from torch import nn


class LoopWindow(nn.Module):
    """Causal local attention: each step looks at `window` tokens, the current one among them."""

    def __init__(self, dim=16, window=3):
        super().__init__()
        self.window = window
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        steps = []
        for t in range(x.shape[1]):
            lo = max(0, t - self.window)
            w = torch.softmax(torch.einsum("bd,bkd->bk", q[:, t], k[:, lo : t + 1]) / q.shape[-1] ** 0.5, dim=-1)
            steps.append(torch.einsum("bk,bkd->bd", w, v[:, lo : t + 1]))
        return torch.stack(steps, dim=1)


def build() -> nn.Module:
    return LoopWindow()


EXPECTED = {"kind": "window-off-by-one", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"x": (2, 9, 16)},
    "mask": None,
    "causal": True,
    "window": 3,
    "embed_dim": 16,
    "heads": 1,
    "head_dim": 16,
    "returns": "out",
}
