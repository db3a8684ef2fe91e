"""Queries sample places of a pyramid; heads and items are taken apart in the other order.

Kind: batch-cross-talk
"""

import torch
import torch.nn.functional as F
from torch import nn


class Deformable(nn.Module):
    """Each query samples a few places of every level around its point. query: (batch, queries, dim); reference_points: (batch, queries,
    levels, 2), x and y in 0 .. 1; value: (batch, pixels of all levels, dim); spatial_shapes: (levels, 2), rows and columns.
    """

    def __init__(self, dim=24, heads=4, n_levels=3, points=2):
        super().__init__()
        self.heads, self.n_levels, self.points = heads, n_levels, points
        self.offset, self.weigh = (
            nn.Linear(dim, heads * n_levels * points * 2),
            nn.Linear(dim, heads * n_levels * points),
        )
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, query, reference_points, value, spatial_shapes, level_start_index):
        b, n, _ = query.shape
        off = self.offset(query).view(b, n, self.heads, self.n_levels, self.points, 2)
        weights = self.weigh(query).view(b, n, self.heads, -1).softmax(-1).transpose(1, 2).flatten(0, 1)[:, None]
        at = reference_points[:, :, None, :, None] + off / spatial_shapes.flip(-1)[:, None]
        maps, seen = self.value(value), []
        for level, (rows, columns) in enumerate(spatial_shapes.tolist()):
            start = int(level_start_index[level])
            m = maps[:, start : start + rows * columns].transpose(1, 2).reshape(b * self.heads, -1, rows, columns)
            where = 2 * at[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
            seen.append(F.grid_sample(m, where, align_corners=False))
        y = (torch.cat(seen, -1) * weights).sum(-1)
        return self.out(y.view(self.heads, b, -1, n).transpose(0, 1).reshape(b, -1, n).mT)


def build() -> nn.Module:
    return Deformable()


EXPECTED = {"kind": "batch-cross-talk", "severity": "error"}
CALL = {
    "attention": "cross",
    "layout": "BLD",
    "inputs": {"query": (2, 5, 24), "value": (2, 32, 24)},
    "mask": None,
    "sparse": True,
    "returns": "out",
}
