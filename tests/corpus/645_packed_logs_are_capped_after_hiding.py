"""Several logs lie in one row, told apart by doc_ids. Scores are capped with tanh after -inf was written, which becomes a mere -cap.

Kind: softcap-after-mask
"""

import torch
from torch import nn


class PackedLogs(nn.Module):
    """doc_ids (batch, length), integer: an entry sees entries of its own log, before and after it. Without them a row is one log."""

    def __init__(self, width=32, heads=4, cap=4.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.norm = nn.RMSNorm(width)
        self.wq, self.wk, self.wv = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.wo = nn.Linear(width, width)

    def squeeze(self, scores):
        return torch.tanh(scores / self.cap) * self.cap

    def hide(self, scores, doc_ids):
        if doc_ids is None:
            return scores
        other = doc_ids.unsqueeze(2) != doc_ids.unsqueeze(1)
        return scores.masked_fill(other.unsqueeze(1), float("-inf"))

    def forward(self, x, doc_ids=None):
        y = self.norm(x)
        q, k, v = (w(y).unflatten(2, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = q @ k.mT / q.shape[3] ** 0.5
        weights = self.squeeze(self.hide(scores, doc_ids)).softmax(dim=3)
        return x + self.wo((weights @ v).transpose(1, 2).flatten(2))


def build() -> nn.Module:
    return PackedLogs()


EXPECTED = {"kind": "softcap-after-mask", "severity": "error"}
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
