"""Correct: logits are 8 * tanh(q . k / sqrt(d)), as in pointer networks; the 8 stands behind the tanh only, by design.

Kind: correct
"""

import torch
from torch import nn


class Dispatcher(nn.Module):
    """Vans ask, stops answer. done (batch, stops): True for stops that are not read any more."""

    def __init__(self, width=32, heads=4, clip=8.0):
        super().__init__()
        self.heads, self.clip = heads, clip
        self.ask, self.answer, self.give, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, vans, stops, done=None):
        q, k, v = (
            f(t).unflatten(2, (self.heads, -1))
            for f, t in zip((self.ask, self.answer, self.give), (vans, stops, stops))
        )
        logits = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[3] ** 0.5
        logits = self.clip * logits.tanh()
        if done is not None:
            logits = logits.masked_fill(done[:, None, None], -1e9)
        return self.out(torch.einsum("bhts,bshd->bthd", logits.softmax(3), v).flatten(2))


def build() -> nn.Module:
    return Dispatcher()


EXPECTED = {"kind": "correct", "severity": None}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"vans": (2, 3, 32), "stops": (2, 7, 32)},
    "query_arg": "vans",
    "context_arg": "stops",
    "mask": {"arg": "done", "shape": (2, 7), "on": "context", "polarity": "ignore", "dtype": "bool"},
    "causal": False,
    "embed_dim": 32,
    "heads": 4,
    "head_dim": 8,
    "returns": "out",
}
