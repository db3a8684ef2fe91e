"""The dropout layer is called and its result dropped.

Kind: dropout-not-applied
"""

from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4, attn_dropout=0.5):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_dropout)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attn = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        self.attn_drop(attn)
        return self.proj((attn @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return Attention()


EXPECTED = {"kind": "dropout-not-applied", "severity": "warning"}
CALL = {
    "attention": "self",
    "layout": "BLD",
    "inputs": {"x": (2, 6, 32)},
    "mask": None,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
