"""Two clouds of points with channels first; both updates are made of what came in.

Kind: correct
"""

import torch
from torch import nn


class Exchange(nn.Module):
    """(items, features, points) twice. Both clouds are treated the same, by one set of weights."""

    def __init__(self, features=24, heads=3):
        super().__init__()
        self.heads = heads
        self.ask, self.tell, self.say = (nn.Conv1d(features, features, 1) for _ in range(3))
        self.close = nn.Conv1d(features, features, 1)

    def split(self, t):
        return t.unflatten(1, (self.heads, -1))

    def read(self, own, other):
        q, k, v = self.split(self.ask(own)), self.split(self.tell(other)), self.split(self.say(other))
        weights = torch.softmax(torch.einsum("bhcn,bhcm->bhnm", q, k) / q.shape[2] ** 0.5, dim=3)
        return self.close(torch.einsum("bhnm,bhcm->bhcn", weights, v).flatten(1, 2))

    def forward(self, cloud_a, cloud_b):
        to_a, to_b = self.read(cloud_a, cloud_b), self.read(cloud_b, cloud_a)
        return cloud_a + to_a, cloud_b + to_b


def build() -> nn.Module:
    return Exchange()


EXPECTED = {"kind": "correct", "severity": None, "looks_like": "stream-asymmetry"}
CALL = {
    "attention": "cross",
    "layout": "BCL",
    "inputs": {"cloud_a": (2, 24, 7), "cloud_b": (2, 24, 7)},
    "query_arg": "cloud_a",
    "context_arg": "cloud_b",
    "streams": ["cloud_a", "cloud_b"],
    "mask": None,
    "embed_dim": 24,
    "heads": 3,
    "head_dim": 8,
    "returns": ["cloud_a", "cloud_b"],
}
