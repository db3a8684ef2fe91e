"""ALiBi with the distance counted from key to query: far keys gain."""

import torch
from torch import nn

RULES = {"ATT803"}


class Right(nn.Module):
    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def distance(self, place):
        return place[None, :] - place[:, None]  # key minus query: negative in the past

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        place = torch.arange(x.shape[1])
        scores = q @ k.mT * q.shape[-1] ** -0.5 + self.slopes[:, None, None] * self.distance(place)
        scores = scores.masked_fill(place[None] > place[:, None], float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Wrong(Right):
    def distance(self, place):
        return place[:, None] - place[None, :]


def right():
    return Right()


def wrong():
    return Wrong()
