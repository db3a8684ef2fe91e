"""Correct: causal local attention in blocks; each block sees itself and the whole block before it. Any length.

Kind: correct
"""

import torch
import torch.nn.functional as F
from torch import nn


class LocalAttention(nn.Module):
    """Parameter-free. q, k, v: (B, H, T, D)."""

    def __init__(self, window_size=3):
        super().__init__()
        self.window_size = window_size

    def forward(self, q, k, v):
        B, H, T, D = q.shape
        w = self.window_size
        pad = -T % w
        q, k, v = (F.pad(t, (0, 0, 0, pad)) for t in (q, k, v))
        n = (T + pad) // w
        q, k, v = (t.reshape(B, H, n, w, D) for t in (q, k, v))
        look = [F.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :n] for t in (k, v)]
        k, v = (torch.cat(pair, dim=3) for pair in zip(look, (k, v), strict=True))
        place = torch.arange(n * w).view(n, w)
        before = torch.cat((place - w, place), dim=1)
        hide = (before[:, None, :] > place[:, :, None]) | (before < 0)[:, None]
        s = torch.einsum("bhnid,bhnjd->bhnij", q, k) * D**-0.5
        s = s.masked_fill(hide, -torch.finfo(s.dtype).max)
        return torch.einsum("bhnij,bhnjd->bhnid", s.softmax(-1), v).reshape(B, H, n * w, D)[:, :, :T]


def build() -> nn.Module:
    return LocalAttention()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "window-off-by-one"}
CALL = {
    "attention": "causal",
    "layout": "BHLD",
    "inputs": {"q": (2, 2, 8, 4), "k": "q", "v": "q"},
    "mask": None,
    "causal": True,
    "embed_dim": 8,
    "heads": 2,
    "head_dim": 4,
    "returns": "out",
}
