"""Two images update each other; the second reads the first after its update."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT310"}


class Right(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def look(self, at, other):
        return F.scaled_dot_product_attention(self.q(at), self.k(other), self.v(other))

    def forward(self, feat0, feat1):
        return feat0 + self.look(feat0, feat1), feat1 + self.look(feat1, feat0)


class Wrong(Right):
    def forward(self, feat0, feat1):
        feat0 = feat0 + self.look(feat0, feat1)
        return feat0, feat1 + self.look(feat1, feat0)


def right():
    return Right()


def wrong():
    return Wrong()
