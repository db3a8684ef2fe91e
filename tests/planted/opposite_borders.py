"""Shifted windows without the mask that keeps the rolled borders apart."""

import torch
import torch.nn.functional as F
from torch import nn

from regard.checks.design import Design

RULES = {"ATT805"}
DESIGN = Design(layout="BHWC", inputs={"x": (2, 8, 4, 8)})


class Right(nn.Module):
    """Shifted windows of 4 x 4 pixels; x: (B, H, W, C), H and W multiples of 4."""

    def __init__(self, dim=8, window=4, shift=2):
        super().__init__()
        self.window, self.shift = window, shift
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def cut(self, x):
        n = self.window
        return x.unflatten(2, (-1, n)).unflatten(1, (-1, n)).transpose(2, 3).flatten(3, 4)  # (B, H/n, W/n, n * n, C)

    def region(self, size):
        place = torch.arange(size)
        return (place >= size - self.window).long() + (place >= size - self.shift).long()

    def same(self, regions):
        return regions == regions.mT

    def forward(self, x):
        b, h, w, c = x.shape
        x = x.roll((-self.shift, -self.shift), (1, 2))
        regions = self.cut((3 * self.region(h)[:, None] + self.region(w))[None, :, :, None])  # (1, H/n, W/n, n * n, 1)
        y = self.cut(x)
        y = F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y), attn_mask=self.same(regions))
        y = y.unflatten(3, (self.window, self.window)).transpose(2, 3).reshape(b, h, w, c)
        return y.roll((self.shift, self.shift), (1, 2))


class Wrong(Right):
    """Shifted windows of 4 x 4 pixels; x: (B, H, W, C), H and W multiples of 4."""

    def same(self, regions):
        return torch.ones_like(regions == regions.mT)


def right():
    return Right()


def wrong():
    return Wrong()
