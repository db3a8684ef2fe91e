"""Scores of the nearest points are normalised over the rooms of the batch.

Kind: softmax-axis-batch
"""

import torch
from torch import nn


class NearReaders(nn.Module):
    """colours: (rooms, points, 4); where: (rooms, points, 3). Each point reads the few nearest ones, itself among them."""

    def __init__(self, dim=30, heads=3, near=5, labels=9):
        super().__init__()
        self.heads, self.near = heads, near
        self.lift, self.ask = nn.Linear(4 + 3, dim), nn.Linear(dim, dim)
        self.tell, self.place = nn.Linear(dim, 2 * dim), nn.Linear(3, dim)
        self.label = nn.Linear(dim, labels)

    def pick(self, rows, at):
        return rows.gather(1, at.flatten(1)[..., None].expand(-1, -1, rows.shape[-1])).unflatten(1, at.shape[1:])

    def forward(self, colours, where):
        h = self.lift(torch.cat((colours, where), -1)).tanh()
        at = torch.cdist(where, where).topk(self.near, largest=False).indices
        k, v = self.pick(self.tell(h), at).chunk(2, -1)
        k = k + self.place(self.pick(where, at) - where[:, :, None])
        q = self.ask(h).unflatten(-1, (self.heads, -1))
        k, v = (t.unflatten(-1, (self.heads, -1)) for t in (k, v))
        score = torch.einsum("rphd,rpnhd->rpnh", q, k) * q.shape[-1] ** -0.5
        weight = score.softmax(0)
        return self.label(h + torch.einsum("rpnh,rpnhd->rphd", weight, v).flatten(2))


def build() -> nn.Module:
    return NearReaders()


EXPECTED = {"kind": "softmax-axis-batch", "severity": "error"}
CALL = {
    "attention": "local",
    "layout": "BLD",
    "inputs": {"colours": (2, 9, 4), "where": (2, 9, 3)},
    "mask": None,
    "embed_dim": 30,
    "heads": 3,
    "head_dim": 10,
    "returns": "out",
}
