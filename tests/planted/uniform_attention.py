"""The scale is computed by an integer division, which gives 0."""

from torch import nn

RULES = {"ATT405", "ATT701"}


class Right(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.f_q, self.f_k, self.f_v = (nn.Linear(dim, dim) for _ in range(3))

    def scale(self, width):
        return 1 / width**0.5

    def forward(self, x):
        q, k, v = self.f_q(x), self.f_k(x), self.f_v(x)
        return (q @ k.mT * self.scale(q.shape[-1])).softmax(-1) @ v


class Wrong(Right):
    def scale(self, width):
        return 1 // width**0.5


def right():
    return Right()


def wrong():
    return Wrong()
