"""The scale is applied in training only."""

from torch import nn

RULES = {"ATT503"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def scaled(self, scores, width):
        return scores * width**-0.5

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.scaled(q @ k.mT, q.shape[-1]).softmax(-1) @ v


class Wrong(Right):
    def scaled(self, scores, width):
        return scores * width**-0.5 if not self.training else scores


def right():
    return Right()


def wrong():
    return Wrong()
