"""prefix_len says how many tokens are the question, which is read in both directions; the answer behind it is causal.

Kind: correct
"""

import torch
from torch import nn


class QuestionFirst(nn.Module):
    def __init__(self, table=56, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(table, width)
        self.norm, self.qkv, self.o = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.logits = nn.Linear(width, table, bias=False)

    def forward(self, ids, prefix_len=None):
        """ids (batch, n) -> (batch, n, table). prefix_len (batch,), integer; None: no question, all causal."""
        h, n = self.table(ids), ids.shape[1]
        key = torch.arange(n, device=ids.device)
        reach = key.repeat(len(ids), 1)
        if prefix_len is not None:
            reach = torch.maximum(reach, prefix_len[:, None] - 1)
        hide = key > reach[..., None]
        q, k, v = self.qkv(self.norm(h)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        w = torch.softmax((q @ k.mT).div(q.shape[-1] ** 0.5).masked_fill(hide[:, None], -torch.inf), -1)
        return self.logits(h + self.o((w @ v).transpose(1, 2).flatten(2)))


def build() -> nn.Module:
    return QuestionFirst()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "mask-ignored"}
CALL = {
    "attention": "causal",
    "layout": "BL",
    "inputs": {"ids": (2, 8)},
    "mask": None,
    "causal": True,
    "embed_dim": 24,
    "heads": 4,
    "head_dim": 6,
    "returns": "out",
}
