"""The 0/1 mask is added to the scores: hidden keys lose one point and stay."""

import torch
from torch import nn

RULES = {"ATT101"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)

    def forward(self, x, mask=None):
        """mask: (B, T), True = attend."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if mask is not None:
            scores = self.hide(scores, mask[:, None, None])
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def hide(self, scores, mask):
        return scores + mask


def right():
    return Right()


def wrong():
    return Wrong()
