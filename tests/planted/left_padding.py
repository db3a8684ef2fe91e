"""The positions that are handed in turn the queries; the keys are numbered from the padding on."""

import torch
from torch import nn

RULES = {"ATT109"}


def turned(x, place):
    """x: (B, T, D), rotary by halves; place: (B or 1, T)."""
    half = x.shape[-1] // 2
    angle = place[..., None].to(x.dtype) * 100.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def key(self, x, place):
        return turned(self.k(x), place)

    def forward(self, x, attention_mask=None, position_ids=None):
        """attention_mask: (B, T), 1 = attend."""
        place = torch.arange(x.shape[1])[None] if position_ids is None else position_ids
        scores = turned(self.q(x), place) @ self.key(x, place).mT * x.shape[-1] ** -0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None] == 0, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) @ self.v(x)


class Wrong(Right):
    def key(self, x, place):
        return turned(self.k(x), torch.arange(x.shape[1])[None])


def right():
    return Right()


def wrong():
    return Wrong()
