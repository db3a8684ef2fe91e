"""Small attention for tests of the checker: one right module, one that leaks padding, one that needs nothing else."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Plain(nn.Module):
    """Self-attention with three heads; no fault."""

    def __init__(self, dim: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Leaky(nn.Module):
    """Padding takes part, a little less."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, mask=None):
        """mask: (B, T), True = attend."""
        scores = self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5
        return (scores if mask is None else scores + mask[:, None]).softmax(-1) @ self.v(x)


class Ahead(nn.Module):
    """Each token sees the next one."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        scores = (self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5).masked_fill(later, float("-inf"))
        return scores.softmax(-1) @ self.v(x)


class Crosstalk(nn.Module):
    """Items of a batch share their mean."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        y = x - x.mean(0, keepdim=True)
        return F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))


class NoCall(nn.Module):
    """Refuses every input."""

    def forward(self, x):
        raise RuntimeError(f"no input of shape {tuple(x.shape)} fits")
