"""A neighbourhood padded at both ends: the mask of real neighbours is used as the mask of hidden ones."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT106", "ATT307", "ATT701"}


class Right(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def hidden(self, real):
        return ~real

    def forward(self, x):
        t = x.shape[1]
        q, k, v = self.q(x), self.k(x), self.v(x)
        k, v = (F.pad(y, (0, 0, 1, 1)).unfold(1, 3, 1).mT for y in (k, v))  # (B, T, 3, D)
        place = torch.arange(t)[:, None] + torch.arange(-1, 2)  # (T, 3)
        scores = (q[:, :, None] @ k.mT) * q.shape[-1] ** -0.5  # (B, T, 1, 3)
        scores = scores.masked_fill(self.hidden((place >= 0) & (place < t))[:, None], -1e4)
        return (scores.softmax(-1) @ v).squeeze(2)


class Wrong(Right):
    def hidden(self, real):
        return real


def right():
    return Right()


def wrong():
    return Wrong()
