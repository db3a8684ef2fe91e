"""The softmax runs over the heads."""

from torch import nn

RULES = {"ATT402"}


class Right(nn.Module):
    axis = -1

    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(2, (self.heads, -1)).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
        energies = q.matmul(k.permute(0, 1, 3, 2)).div(q.shape[-1] ** 0.5)
        return self.o(energies.softmax(self.axis).matmul(v).permute(0, 2, 1, 3).flatten(2))


class Wrong(Right):
    axis = 1


def right():
    return Right()


def wrong():
    return Wrong()
