"""The mask of queries and keys is transposed: right for key masks and for symmetric ones."""

from torch import nn

RULES = {"ATT110"}


class Right(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def spread(self, mask):
        if mask.ndim == 2:  # (B, S)
            return mask[:, None, None]
        return mask[:, None]  # (B, T, S)

    def forward(self, x, mask=None):
        """mask: (batch, keys) or (batch, queries, keys), True = attend."""
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~self.spread(mask), -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Wrong(Right):
    def spread(self, mask):
        return mask[:, None, None] if mask.ndim == 2 else mask.mT[:, None]


def right():
    return Right()


def wrong():
    return Wrong()
