"""The mask is skipped for a batch of one."""

import torch.nn.functional as F
from torch import nn

RULES = {"ATT105", "ATT109"}


class Right(nn.Module):
    def __init__(self, d_model=8):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(d_model, d_model) for _ in range(3))

    def wanted(self, mask):
        return mask is not None

    def forward(self, x, mask=None):
        """mask: bool (batch, tokens); True means that the token takes part."""
        seen = mask[:, None].expand(-1, x.shape[1], -1) if self.wanted(mask) else None
        return F.scaled_dot_product_attention(self.wq(x), self.wk(x), self.wv(x), attn_mask=seen)


class Wrong(Right):
    def wanted(self, mask):
        return mask is not None and mask.shape[0] > 1


def right():
    return Right()


def wrong():
    return Wrong()
