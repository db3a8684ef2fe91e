"""The weights of one head are drawn and repeated for all."""

import torch
from torch import nn

RULES = {"ATT703"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.w_q, self.w_k, self.w_v = (nn.Parameter(self.drawn(heads, dim, dim // heads)) for _ in range(3))
        self.w_o = nn.Parameter(torch.randn(heads, dim // heads, dim) / dim**0.5)

    def drawn(self, heads, dim, width):
        return torch.randn(heads, dim, width) / dim**0.5

    def forward(self, x):
        q, k, v = (torch.einsum("bte,hed->bhtd", x, w) for w in (self.w_q, self.w_k, self.w_v))
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
        return torch.einsum("bhtd,hde->bte", weights @ v, self.w_o)


class Wrong(Right):
    def drawn(self, heads, dim, width):
        return (torch.randn(1, dim, width) / dim**0.5).repeat(heads, 1, 1)


def right():
    return Right()


def wrong():
    return Wrong()
