"""The temperature is the root of the number of keys."""

from torch import nn

RULES = {"ATT401"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def temperature(self, q):
        return q.shape[-1] ** 0.5

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / self.temperature(q)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def temperature(self, q):
        return q.shape[-2] ** 0.5


def right():
    return Right()


def wrong():
    return Wrong()
