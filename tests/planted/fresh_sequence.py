"""The reset puts the counter back and leaves the keys and values where they are."""

import torch
from torch import nn

RULES = {"ATT204"}


class Right(nn.Module):
    def __init__(self, embed_dim=12):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(embed_dim, embed_dim) for _ in range(3))
        self.steps, self.keys, self.values = 0, None, None

    def reset(self):
        self.steps, self.keys, self.values = 0, None, None

    def forward(self, x):
        k, v = self.key(x), self.value(x)
        if self.keys is not None:
            k, v = torch.cat([self.keys, k], 1), torch.cat([self.values, v], 1)
        self.keys, self.values = k, v
        self.steps += x.shape[1]
        t, s = x.shape[1], k.shape[1]
        scores = self.query(x) @ k.mT / k.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(s - t + 1), float("-inf"))
        return scores.softmax(-1) @ v


class Wrong(Right):
    def reset(self):
        self.steps = 0


def right():
    return Right()


def wrong():
    return Wrong()
