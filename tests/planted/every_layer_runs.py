"""The loop over the layers ends one too soon."""

from torch import nn

RULES = {"ATT701"}  # nothing flows back into what never ran
ASKED = {"ATT509"}


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return x + self.out((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v)


class Right(nn.Module):
    def __init__(self, dim=12, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))

    def used(self):
        return self.layers

    def forward(self, x):
        for layer in self.used():
            x = layer(x)
        return x


class Wrong(Right):
    def used(self):
        return self.layers[:-1]


def right():
    return Right()


def wrong():
    return Wrong()
