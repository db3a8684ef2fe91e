"""Pairs that differ in a line, for what samples of pairs taught the checker: the fault is told, and its twin is not blamed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checks.check import check


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float = 0.0, scale: float | None = None) -> Tensor:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (q @ k.mT * scale + bias).softmax(-1) @ v


def told(module: nn.Module, rule: str) -> list[tuple[str, str | None]]:
    report = check(module, select=[rule])
    assert report.status == "checked", report.reason
    return [(f.level, f.kind) for f in report.findings]


class Turned(nn.Module):
    """Rotary positions whose angles are counted in the dtype of the input, or in float32 and more."""

    def __init__(self, coarse: bool):
        super().__init__()
        self.qkv, self.coarse = nn.Linear(16, 48, bias=False), coarse

    def forward(self, x):
        kind = x.dtype if self.coarse else torch.promote_types(x.dtype, torch.float32)
        angle = torch.outer(torch.arange(x.shape[1], dtype=kind), 100.0 ** -torch.arange(0, 1, 0.125, dtype=kind))
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)

        def turn(t: Tensor) -> Tensor:
            a, b = t.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        q, k, v = self.qkv(x).chunk(3, -1)
        return attend(turn(q), turn(k), v)


@pytest.mark.parametrize(("coarse", "expected"), [(True, [("question", "rope-precision")]), (False, [])])
def test_angles_that_are_counted_in_sixteen_bits(coarse, expected):
    assert told(Turned(coarse), "ATT801") == expected


class OfTheLength(nn.Module):
    """As many channels in a head as tokens in the call of the checker (7): the root of the length is right there by accident."""

    def __init__(self, length: bool, heads: int = 4, each: int = 7):
        super().__init__()
        self.qkv, self.heads, self.length = nn.Linear(heads * each, 3 * heads * each), heads, length

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out = attend(q, k, v, scale=(k.shape[-2] if self.length else k.shape[-1]) ** -0.5)
        return out.transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("length", "expected"), [(True, [("error", "scale-wrong-size")]), (False, [])])
def test_a_scale_by_the_length_that_is_right_at_one_length(length, expected):
    assert told(OfTheLength(length), "ATT401") == expected


class Tiles(nn.Module):
    """Tiles of 2 x 2 pixels, (B, H, W, C), put back as they were cut or with rows and columns exchanged."""

    def __init__(self, exchanged: bool):
        super().__init__()
        self.qkv, self.exchanged = nn.Linear(12, 36), exchanged

    def forward(self, x):
        b, h, w, c = x.shape
        tiles = x.view(b, h // 2, 2, w // 2, 2, c).transpose(2, 3).reshape(-1, 4, c)
        q, k, v = self.qkv(tiles).chunk(3, -1)
        rows, columns = (w // 2, h // 2) if self.exchanged else (h // 2, w // 2)
        made = attend(q, k, v).view(b, rows, columns, 2, 2, c).transpose(2, 3)
        return x + made.reshape(b, h, w, c)


@pytest.mark.parametrize(("exchanged", "expected"), [(True, {"window-reverse"}), (False, set())])
def test_windows_that_are_put_back_in_the_other_order(exchanged, expected):
    assert {kind for _, kind in told(Tiles(exchanged), "ATT805")} == expected


class Buckets(nn.Module):
    """A decoder's bias by distance; with the sign wrong, all visible keys read entry 0."""

    def __init__(self, sign: int):
        super().__init__()
        self.qkv, self.table, self.sign = nn.Linear(16, 48), nn.Embedding(8, 1), sign

    def forward(self, x):
        at = torch.arange(x.shape[1])
        ahead = at - at[:, None]
        bias = self.table((self.sign * ahead).clamp(0, 7))[..., 0].masked_fill(ahead > 0, -torch.inf)
        q, k, v = self.qkv(x).chunk(3, -1)
        return attend(q, k, v, bias)


@pytest.mark.parametrize(("sign", "expected"), [(1, [("question", "unused-parameters")]), (-1, [])])
def test_a_bias_that_is_the_same_for_every_visible_key(sign, expected):
    assert told(Buckets(sign), "ATT701") == expected


class Letters(nn.Module):
    """Ids as (T, B), attention along T through torch's default; the last row alone where `pooled`."""

    def __init__(self, pooled: bool):
        super().__init__()
        self.embed, self.attn, self.pooled = nn.Embedding(30, 16), nn.MultiheadAttention(16, 2), pooled
        self.place = nn.Parameter(torch.randn(40, 1, 16))

    def forward(self, ids):
        x = self.embed(ids) + self.place[: ids.shape[0]]
        x = x + self.attn(x, x, x, need_weights=False)[0]
        return x[-1] if self.pooled else x


@pytest.mark.parametrize("pooled", [False, True])
def test_ids_with_the_sequence_first_do_not_mix_items(pooled):
    assert told(Letters(pooled), "ATT301") == []


class Remembered(nn.Module):
    """What padding hides, worked out in each call, or kept from the first call of that shape."""

    def __init__(self, kept: bool):
        super().__init__()
        self.qkv, self.kept, self.hide = nn.Linear(16, 48), kept, None

    def forward(self, x, lengths):
        if self.hide is None or not self.kept or self.hide.shape != x.shape[:2]:
            self.hide = torch.arange(x.shape[1]) >= lengths[:, None]
        q, k, v = self.qkv(x).chunk(3, -1)
        return attend(q, k, v, torch.zeros(()).masked_fill(self.hide[:, None], -1e30))


@pytest.mark.parametrize(("kept", "expected"), [(True, [("error", "cache-stale")]), (False, [])])
def test_a_mask_of_an_earlier_call(kept, expected):
    assert told(Remembered(kept), "ATT103") == expected


class Fed(nn.Module):
    """Pre-norm, with keys and values kept behind a flag of any name, and a reset that may forget them or not."""

    def __init__(self, forgets: bool):
        super().__init__()
        self.norm, self.qkv, self.forgets, self.past = nn.LayerNorm(16), nn.Linear(16, 48), forgets, None

    def reset(self):
        self.past = None if self.forgets else self.past

    def forward(self, x, live=False):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if live:
            k, v = (torch.cat([a, b], 1) for a, b in zip(self.past, (k, v))) if self.past else (k, v)
            self.past = (k, v)
        keep = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        return x + F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@pytest.mark.parametrize(("forgets", "expected"), [(False, [("error", "cache-stale")]), (True, [])])
def test_a_cache_behind_a_norm_and_a_flag_is_found(forgets, expected):
    assert told(Fed(forgets), "ATT204") == expected
