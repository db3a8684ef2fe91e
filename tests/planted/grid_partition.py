"""Grid attention whose axes are those of block attention."""

import torch.nn.functional as F
from torch import nn

from regard.checks.design import Design

RULES = {"ATT806"}
DESIGN = Design(layout="BHWC", inputs={"x": (2, 6, 9, 8)})


class Right(nn.Module):
    """Grid attention: each pixel attends to a 3 x 3 grid spread over the whole image. x: (B, H, W, C)."""

    def __init__(self, dim=8, cells=3):
        super().__init__()
        self.cells = cells
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def parts(self, x):
        g = self.cells
        return x.unflatten(2, (g, -1)).unflatten(1, (g, -1)).permute(0, 2, 4, 1, 3, 5)  # (B, H/g, W/g, g, g, C)

    def back(self, y):
        return y.permute(0, 3, 1, 4, 2, 5).flatten(3, 4).flatten(1, 2)

    def forward(self, x):
        y = self.parts(x)
        sizes = y.shape[3:5]
        y = y.flatten(3, 4)
        y = F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))
        return self.back(y.unflatten(3, sizes))


class Wrong(Right):
    """Grid attention: each pixel attends to a 3 x 3 grid spread over the whole image. x: (B, H, W, C)."""

    def parts(self, x):
        g = self.cells
        return x.unflatten(2, (-1, g)).unflatten(1, (-1, g)).permute(0, 1, 3, 2, 4, 5)

    def back(self, y):
        return y.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(1, 2)


def right():
    return Right()


def wrong():
    return Wrong()
