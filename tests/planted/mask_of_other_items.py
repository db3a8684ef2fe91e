"""Scores are folded item by item, the mask head by head: most rows get the mask of another item."""

import torch
from torch import nn

RULES = {"ATT101", "ATT103"}


class Right(nn.Module):
    def __init__(self, hidden=12, n_heads=2):
        super().__init__()
        self.n_heads = n_heads
        self.proj = nn.ModuleDict({name: nn.Linear(hidden, hidden, bias=False) for name in "qkvo"})

    def fold(self, x):
        b, t, e = x.shape
        return x.view(b, t, self.n_heads, -1).transpose(1, 2).reshape(b * self.n_heads, t, e // self.n_heads)

    def spread(self, mask):
        return mask.repeat_interleave(self.n_heads, dim=0)

    def forward(self, hidden_states, attention_mask):
        q, k, v = (self.fold(self.proj[name](hidden_states)) for name in "qkv")
        energy = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        energy = energy.masked_fill(self.spread(attention_mask)[:, None] == 0, -1e9)
        y = torch.bmm(energy.softmax(-1), v).unflatten(0, (-1, self.n_heads))
        return self.proj["o"](y.transpose(1, 2).flatten(2))


class Wrong(Right):
    def spread(self, mask):
        return mask.repeat(self.n_heads, 1)


def right():
    return Right()


def wrong():
    return Wrong()
