"""A softmax written out without the maximum subtracted."""

from torch import nn

RULES = {"ATT604"}


class Right(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def shifted(self, scores):
        return scores - scores.amax(-1, keepdim=True)

    def forward(self, x):
        e = self.shifted(self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5).exp()
        return e / e.sum(-1, keepdim=True) @ self.v(x)


class Wrong(Right):
    def shifted(self, scores):
        return scores


def right():
    return Right()


def wrong():
    return Wrong()
