"""The complement of a 0/1 integer mask is -1 and -2, both true: every key is hidden, which hides none."""

import torch
from torch import nn

RULES = {"ATT108"}


class Right(nn.Module):
    def __init__(self, width=9):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def hidden(self, mask):
        return mask == 0

    def forward(self, x, mask):
        """mask: (B, T), 1 = attend, 0 = padding."""
        scores = torch.einsum("btd,bsd->bts", self.q(x) / 3, self.k(x))
        scores = scores.masked_fill(self.hidden(mask)[:, None], torch.finfo(scores.dtype).min)
        return scores.softmax(2) @ self.v(x)


class Wrong(Right):
    def hidden(self, mask):
        return (~mask).to(torch.bool)


def right():
    return Right()


def wrong():
    return Wrong()
