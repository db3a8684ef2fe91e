"""Models of four layers of which one may be exchanged for a part that leaks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS = 24, 3


class Attention(nn.Module):
    def __init__(self, width=WIDTH, heads=HEADS, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def past(self, length):
        return torch.ones(length, length, dtype=torch.bool).tril()

    def forward(self, x, keep=None):
        items, length, width = x.shape
        q, k, v = self.qkv(x).view(items, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        allowed = (self.past(length) if self.causal else torch.ones(length, length, dtype=torch.bool))[None, None]
        if keep is not None:
            allowed = allowed & keep[:, None, None]
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.out(heads.transpose(1, 2).reshape(items, length, width))


class Block(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention(causal=causal)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, keep=None):
        x = x + self.attn(self.norm1(x), keep)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """ids (B, T) and attention_mask (B, T), 1 = token, to states (B, T, WIDTH)."""

    def __init__(self, causal=False):
        super().__init__()
        self.embed, self.position = nn.Embedding(50, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(Block(causal) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, attention_mask=None):
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1]))
        keep = None if attention_mask is None else attention_mask.bool()
        for layer in self.layers:
            x = layer(x, keep)
        return self.norm(x)


class OneAhead(Attention):
    """The triangle begins one too late."""

    def past(self, length):
        return torch.ones(length, length, dtype=torch.bool).tril(1)


class NoTriangle(Attention):
    """The future is not hidden."""

    def past(self, length):
        return torch.ones(length, length, dtype=torch.bool)


class NoPadding(Attention):
    """The mask that is handed in goes no further."""

    def forward(self, x, keep=None):
        return super().forward(x)


class OverBatch(nn.LayerNorm):
    """The mean of the whole batch is taken off."""

    def forward(self, x):
        return super().forward(x - x.mean((0, 1), keepdim=True))


class OverTime(nn.LayerNorm):
    """The mean of the whole sequence is taken off."""

    def forward(self, x):
        return super().forward(x - x.mean(1, keepdim=True))


class Whole(nn.Module):
    """A row learns of the others in the model's own forward, and in no module of it."""

    def __init__(self):
        super().__init__()
        self.model = Model()

    def forward(self, ids, attention_mask=None):
        x = self.model(ids, attention_mask)
        return x - x.mean(1, keepdim=True)


def model(
    path: str | None = None, part: type[nn.Module] | None = None, causal: bool = False, sizes: dict | None = None
) -> nn.Module:
    """The right model, or the one in which the module at `path` is a `part`. Weights from a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = Model(causal)
        if path is not None and part is not None:
            at, _, name = path.rpartition(".")
            made.get_submodule(at).register_module(name, part(**(sizes or {})))
    return made
