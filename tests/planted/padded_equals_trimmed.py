"""Hidden keys and values are set to zero instead of being hidden: each keeps the weight of a score of 0."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT102"}


class Right(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None])

    def forward(self, x, keep):
        """keep: (B, T) bool, True for real tokens."""
        return self.attend(self.query(x), self.key(x), self.value(x), keep)


class Wrong(Right):
    def attend(self, q, k, v, keep):
        return F.scaled_dot_product_attention(q, k * keep[..., None], v * keep[..., None])


def right():
    return Right()


def wrong():
    return Wrong()
