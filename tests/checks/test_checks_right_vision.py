"""Right modules of vision, points and routed tokens that were once blamed or not called, each with what it must not be told."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.checks.check import check

WIDTH = 18


class Routed(nn.Module):
    """Causal; a token whose first channel is not positive is passed by: it neither asks nor is a key of later ones."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        taken, n = x[..., 0] > 0, x.shape[1]
        q, k, v = self.qkv(x).chunk(3, -1)
        keep = (taken[:, None, :] & torch.ones(n, n, dtype=torch.bool).tril()) | torch.eye(n, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return torch.where(taken[..., None], x + y, x)


class Tiles(nn.Module):
    """Attention inside of tiles of 2 x 3 pixels (B, C, H, W); the sides are to be multiples of those."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, image):
        size, tile = image.shape[-2:], (2, 3)
        cut = F.unfold(self.qkv(image), tile, stride=tile)  # (B, 3 C 6, tiles)
        q, k, v = cut.unflatten(1, (3, WIDTH, 6)).permute(1, 0, 4, 3, 2)  # (B, tiles, 6, C) each
        y = F.scaled_dot_product_attention(q, k, v).permute(0, 3, 2, 1).flatten(1, 2)
        return F.fold(self.out(y.unflatten(1, (WIDTH, 6))).flatten(1, 2), size, tile, stride=tile)


class Detector(nn.Module):
    """Sequence first: boxes (Q, B, C) look at each other and then at a map (S, B, C); both have places of their own."""

    def __init__(self):
        super().__init__()
        self.among = nn.MultiheadAttention(WIDTH, 3)
        self.q, self.k, self.v, self.far = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, boxes, memory, pos, query_pos):
        asked = boxes + query_pos
        boxes = boxes + self.among(asked, asked, boxes)[0]
        q, k, far = (x.unflatten(2, (3, -1)) for x in (self.q(boxes + query_pos), self.k(memory), self.far(pos)))
        weights = (torch.einsum("qbhc,sbhc->bqs", q, k + far) * WIDTH**-0.5).softmax(-1)
        return boxes + torch.einsum("bqs,sbc->qbc", weights, self.v(memory))


class Regions(nn.Module):
    """Queries (B, Q, C) read the part of a map (B, C, H, W) that their own scores of twice its size, (B, Q, 2 H, 2 W), allow."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Conv2d(WIDTH, 2 * WIDTH, 1)

    def forward(self, query, features, region_mask):
        k, v = self.kv(features).flatten(2).mT.chunk(2, -1)
        small = F.interpolate(region_mask, size=features.shape[-2:], mode="bilinear")
        hidden = small.flatten(2) < 0
        hidden = hidden & ~hidden.all(-1, keepdim=True)
        scores = (self.q(query) @ k.mT * WIDTH**-0.5).masked_fill(hidden, float("-inf"))
        return query + scores.softmax(-1) @ v


class Neighbours(nn.Module):
    """Points (B, N, C) at places (B, N, 3): each channel has weights of its own over the three nearest ones."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.far, self.score = nn.Linear(3, WIDTH), nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, points, xyz):
        near = torch.cdist(xyz, xyz).topk(min(3, xyz.shape[1]), largest=False).indices  # (B, N, 3)
        item = torch.arange(len(points))[:, None, None]
        k, v = self.k(points)[item, near], self.v(points)[item, near]  # (B, N, 3, C)
        far = self.far(xyz[:, :, None] - xyz[item, near])
        weights = self.score(self.q(points)[:, :, None] - k + far).softmax(2)
        return points + (weights * v).sum(2)


class Grouped(nn.Module):
    """A map in groups of channels, shifted by a step of time, reads a text: (B, C, H, W), (B, T), (B, S, E)."""

    def __init__(self):
        super().__init__()
        self.norm, self.shift = nn.GroupNorm(6, WIDTH), nn.Linear(10, WIDTH)
        self.q, self.kv = nn.Conv2d(WIDTH, WIDTH, 1), nn.Linear(14, 2 * WIDTH)

    def forward(self, image, moment, text):
        x = self.norm(image) + self.shift(moment)[:, :, None, None]
        q, (k, v) = self.q(x).flatten(2).mT, self.kv(text).chunk(2, -1)
        return image + F.scaled_dot_product_attention(q, k, v).mT.reshape(image.shape)


class Distances(nn.Module):
    """Attention on a map of 3 x 7 pixels, with learned vectors for all distances in rows and in columns."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Conv2d(WIDTH, 3 * WIDTH, 1, bias=False)
        self.by_row, self.by_column = nn.Parameter(torch.randn(5, WIDTH)), nn.Parameter(torch.randn(13, WIDTH))

    def forward(self, image):
        q, k, v = self.qkv(image).flatten(2).mT.chunk(3, -1)  # (B, N, C)
        place = torch.cartesian_prod(*(torch.arange(n) for n in image.shape[-2:]))
        apart = place[:, None] - place
        rows = self.by_row.view(2 * image.shape[-2] - 1, WIDTH)[apart[..., 0] + image.shape[-2] - 1]
        columns = self.by_column.view(2 * image.shape[-1] - 1, WIDTH)[apart[..., 1] + image.shape[-1] - 1]
        scores = q @ k.mT + torch.einsum("bic,ijc->bij", q, rows + columns)
        return ((scores * WIDTH**-0.5).softmax(-1) @ v).mT.reshape(image.shape)


KINDS = [Routed, Tiles, Detector, Regions, Neighbours, Grouped, Distances]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_right_design_is_called_and_gets_no_error_and_no_warning(kind):
    torch.manual_seed(0)
    report = check(kind())
    assert report.status == "checked", report.reason
    assert not [(f.rule, f.level, f.message) for f in report.findings if f.level != "question"]


def test_a_map_of_odd_sides_is_asked_about_where_blocks_leave_its_edge_out():
    report = check(Tiles(), select=["ATT307"])
    assert [(f.level, f.kind) for f in report.findings] == [("question", "chunk-tail")]
