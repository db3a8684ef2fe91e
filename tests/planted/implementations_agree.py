"""The fused path takes the mask and leaves out the bias of the distance."""

import torch
import torch.nn.functional as F
from torch import nn

RULES = {"ATT508"}


class Right(nn.Module):
    def __init__(self, dim=12, longest=64):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.distance = nn.Parameter(torch.randn(2 * longest - 1))
        self.flash = False

    def added(self, keep, bias):
        """What the kernel adds to the scores, (B, T, T)."""
        return bias.expand(keep.shape[0], -1, -1).masked_fill(~keep, -1e9)

    def forward(self, x, attention_mask=None):
        """attention_mask: (B, T), 1 = attend."""
        place = torch.arange(x.shape[1])
        bias = self.distance[place[:, None] - place + self.distance.numel() // 2]
        keep = torch.ones(x.shape[:2]) if attention_mask is None else attention_mask
        keep = keep.bool()[:, None]
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.flash:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=self.added(keep, bias))
        scores = q @ k.mT * q.shape[-1] ** -0.5 + bias
        return scores.masked_fill(~keep, -1e9).softmax(-1) @ v


class Wrong(Right):
    def added(self, keep, bias):
        return torch.zeros_like(bias).expand(keep.shape[0], -1, -1).masked_fill(~keep, -1e9)


def right():
    return Right()


def wrong():
    return Wrong()
