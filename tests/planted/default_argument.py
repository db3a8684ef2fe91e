"""The list of past keys is a default argument: all calls share it."""

import torch
from torch import nn

RULES = {"ATT207"}


class Right(nn.Module):
    def __init__(self, embed_dim=12):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(embed_dim, embed_dim) for _ in range(3))

    def attend(self, x, past):
        past.append((self.key(x), self.value(x)))
        k, v = (torch.cat(parts, 1) for parts in zip(*past))
        t, s = x.shape[1], k.shape[1]
        scores = self.query(x) @ k.mT / k.shape[-1] ** 0.5
        return scores.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(s - t + 1), float("-inf")).softmax(-1) @ v

    def forward(self, x, past=[]):  # noqa: B006
        return self.attend(x, list(past))


class Wrong(Right):
    def forward(self, x, past=[]):  # noqa: B006
        return self.attend(x, past)


def right():
    return Right()


def wrong():
    return Wrong()
