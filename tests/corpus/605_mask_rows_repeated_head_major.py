"""[L, B, D] with B * H batches for bmm; the mask rows are repeated as whole blocks, which is the other order.

Kind: mask-batch-head-order
"""

import torch
from torch import nn


class SeqFirstBmm(nn.Module):
    """x: [length, batch, channels]; key_padding_mask: bool [batch, length], True = padding."""

    def __init__(self, embed_dim=24, num_heads=3):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def fold(self, t):
        return t.contiguous().view(t.size(0), -1, self.head_dim).transpose(0, 1)

    def forward(self, x, key_padding_mask=None):
        L, B, C = x.shape
        q, k, v = self.fold(self.q_proj(x)), self.fold(self.k_proj(x)), self.fold(self.v_proj(x))
        w = torch.bmm(q, k.transpose(1, 2)) * self.head_dim**-0.5
        if key_padding_mask is not None:
            w = w.masked_fill(key_padding_mask.repeat(self.num_heads, 1).unsqueeze(1), -1e9)
        y = torch.bmm(w.softmax(-1), v)
        return self.out_proj(y.transpose(0, 1).reshape(L, B, C))


def build() -> nn.Module:
    return SeqFirstBmm()


EXPECTED = {"kind": "mask-batch-head-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "LBD",
    "inputs": {"x": (6, 2, 24)},
    "mask": {"arg": "key_padding_mask", "shape": (2, 6), "on": "keys", "polarity": "ignore", "dtype": "bool"},
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
