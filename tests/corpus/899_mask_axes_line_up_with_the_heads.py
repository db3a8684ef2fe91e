"""(batch, 1, keys) broadcasts over (batch, heads, queries, keys) from the right: the batch of the mask meets the heads.

Kind: mask-batch-head-order
"""

from torch import nn


class Attention(nn.Module):
    """mask: bool (batch, tokens), True = attend. The batch is as large as the number of heads in this project."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            s = s.masked_fill(~mask.unsqueeze(1), -1e9)
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "mask-batch-head-order", "severity": "error"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (4, 6, 32)},
    "mask": {"arg": "mask", "shape": (4, 6), "on": "keys", "polarity": "keep", "dtype": "bool"},
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
