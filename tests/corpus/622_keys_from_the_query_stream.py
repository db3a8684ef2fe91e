"""Keys come from x and values from the context; with equal lengths nothing complains.

Kind: wrong-source
"""

import torch
from torch import nn


class TextToImage(nn.Module):
    """Tokens read image patches; both streams have the same number of tokens in our data."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, text, image):
        q, k, v = (
            f(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f, t in ((self.q, text), (self.k, text), (self.v, image))
        )
        return self.o(torch.softmax(q @ k.mT / q.size(-1) ** 0.5, -1).matmul(v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return TextToImage()


EXPECTED = {"kind": "wrong-source", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"text": (2, 6, 24), "image": (2, 6, 24)},
    "query_arg": "text",
    "context_arg": "image",
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": "out",
}
