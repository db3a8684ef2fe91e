"""Three tokens of each turn stand in a row, and the triangle ends four tokens late.

Kind: future-leak
"""

import torch
from torch import nn


class GameReader(nn.Module):
    """Goal first, then (paid, seen, done) of each turn; what is done next is read off at what was seen."""

    def __init__(self, seen_width=5, done_width=2, goal_width=4, dim=24, heads=3, longest=30):
        super().__init__()
        self.heads, self.first = heads, nn.Linear(goal_width, dim)
        self.paid, self.seen, self.done = nn.Linear(1, dim), nn.Linear(seen_width, dim), nn.Linear(done_width, dim)
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.after, self.act = nn.LayerNorm(dim), nn.Linear(dim, done_width)
        open_ = torch.ones(longest, longest, dtype=torch.bool).tril(4)
        self.register_buffer("open", open_, persistent=False)

    def forward(self, seen, done, paid, goal):
        turns = torch.stack((self.paid(paid), self.seen(seen), self.done(done)), 2)
        x = torch.cat((self.first(goal)[:, None], turns.flatten(1, 2)), 1)
        n = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        score = (q @ k.mT) * q.shape[-1] ** -0.5
        weight = score.masked_fill(~self.open[:n, :n], -torch.inf).softmax(-1)
        x = x + self.out((weight @ v).transpose(1, 2).flatten(2))
        return self.act(self.after(x)[:, 2::3])


def build() -> nn.Module:
    return GameReader()


EXPECTED = {"kind": "future-leak", "severity": "error"}
CALL = {
    "attention": "causal",
    "layout": "BLD",
    "inputs": {"seen": (2, 6, 5), "done": (2, 6, 2), "paid": (2, 6, 1), "goal": (2, 4)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
