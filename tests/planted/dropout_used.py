"""The dropout layer is made and never called."""

from torch import nn

RULES = {"ATT502"}


class Right(nn.Module):
    def __init__(self, dim=12, dropout=0.1):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def thinned(self, weights):
        return self.drop(weights)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.thinned((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)) @ v


class Wrong(Right):
    def thinned(self, weights):
        return weights


def right():
    return Right()


def wrong():
    return Wrong()
