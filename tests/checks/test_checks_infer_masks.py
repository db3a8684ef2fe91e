"""Mask arguments are understood in every shape, dtype and polarity; what is no mask is left alone; caches are found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.checks.mask_use import MaskUse
from regard.checks.plan import read_signature
from regard.checks.prepare import prepare

SHAPES = ("BS", "TS", "BTS", "B1TS", "BHTS")


class Masked(nn.Module):
    """Hides what `meaning` says, from a mask of shape `axes`."""

    def __init__(self, axes: str, meaning: str):
        super().__init__()
        self.axes, self.meaning, self.num_heads = axes, meaning, 4
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, c = x.shape
        q, k, v = (p.view(b, t, 4, 8).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / 8**0.5
        if mask is not None:
            size = {"B": b, "T": t, "S": t, "H": 4, "1": 1}
            if tuple(mask.shape) != tuple(size[a] for a in self.axes):
                raise ValueError(f"a mask of {self.axes}, not {tuple(mask.shape)}")
            place = "BHTS".replace("H", "1") if "1" in self.axes else "BHTS"
            mask = mask.reshape([size[a] if a in self.axes else 1 for a in place])
            if self.meaning == "additive":
                scores = scores + mask
            else:
                scores = scores.masked_fill(mask if self.meaning == "drop" else ~mask, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)


def inferred(module: nn.Module) -> MaskUse:
    return prepare(module).masks[0]


@pytest.mark.parametrize(
    ("axes", "meaning"), [(axes, meaning) for axes in SHAPES for meaning in ("keep", "drop", "additive")]
)
def test_shape_and_meaning_of_a_mask_are_found_by_what_it_hides(axes, meaning):
    use = inferred(Masked(axes, meaning))
    assert use.works
    assert use.dtype == ("additive" if meaning == "additive" else "bool")
    assert meaning == "additive" or use.polarity == meaning
    assert use.shape.replace("H", "") == axes.replace("1", "").replace("H", "") or use.shape == axes


def test_masks_of_heads_of_kernels_and_functions_are_left_alone():
    def forward(x, mask=None, layer_head_mask=None, block_mask=None, mask_fn=None, query_length=None):
        return x

    signature = read_signature(forward)
    assert signature.masks == ["mask"]
    assert signature.lengths == []
    assert signature.left_out == ["layer_head_mask", "block_mask", "mask_fn"]


def test_lengths_hide_what_lies_behind_them():
    class Lengths(Masked):
        def forward(self, x, valid_lens=None):
            keep = None if valid_lens is None else torch.arange(x.shape[1])[None] < valid_lens[:, None]
            return super().forward(x, keep)

    use = inferred(Lengths("BS", "keep"))
    assert (use.parameter, use.shape, use.works) == ("valid_lens", "lengths", True)


def test_a_cache_that_is_handed_back_is_found():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x, past_key_value=None):
            q, k, v = self.qkv(x).chunk(3, -1)
            if past_key_value is not None:
                k, v = torch.cat([past_key_value[0], k], 1), torch.cat([past_key_value[1], v], 1)
            t, s = q.shape[1], k.shape[1]
            see = torch.ones(t, s, dtype=torch.bool).tril(s - t)
            return (q @ k.mT / 4).masked_fill(~see, -torch.inf).softmax(-1) @ v, (k, v)

    cache = prepare(Cached()).cache
    assert cache is not None
    assert (cache.style, cache.parameter) == ("returned", "past_key_value")


def test_a_mask_of_an_argument_that_is_not_given_is_left_out_with_a_note():
    class Extra(Masked):
        def forward(self, x, mask=None, additional_kv=None, additional_kv_mask=None):
            return super().forward(x, mask)

    case = prepare(Extra("BS", "keep"))
    assert [m.parameter for m in case.masks] == ["mask"]
    assert "additional_kv_mask: it goes with additional_kv, which is not given" in case.notes


class OverScores(nn.Module):
    """Scores are filled where the mask over (items, heads, queries, keys) is True."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        b, t, c = x.shape
        q, k, v = (p.view(b, t, 4, 8).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / 8**0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)


class OverKeys(OverScores):
    """The same for a mask over (items, keys), where the name has a fixed meaning."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return super().forward(x, None if attention_mask is None else attention_mask.bool()[:, None, None, :])


class Spoken(OverScores):
    """attention_mask: (items, heads, queries, keys). True indicates masking."""


def test_a_borrowed_name_fixes_the_meaning_of_a_mask_over_keys_and_of_no_other():
    over_scores, over_keys = inferred(OverScores()), inferred(OverKeys())
    assert (over_scores.works, over_scores.polarity) == (True, "drop")
    assert (over_keys.works, over_keys.polarity) == (False, "keep")


def test_true_indicates_masking_is_read():
    use = inferred(Spoken())
    assert (use.works, use.polarity, use.said) == (True, "drop", "True indicates masking")


class SeenOrNot(nn.Module):
    """A mask that must be given, as numbers, and is multiplied: what is not 1 is not there."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(6, 16), nn.Linear(5, 32)

    def forward(self, agents, entities, visible):
        k, v = self.kv(entities).chunk(2, -1)
        scores = self.q(agents) @ k.mT * 16**-0.5
        w = (scores - scores.amax(-1, keepdim=True)).exp() * (1 - (1 - visible)[:, None])
        return w / (w.sum(-1, keepdim=True) + 1e-9) @ v


def test_a_required_mask_that_is_named_for_what_is_seen_begins_with_ones():
    case = prepare(SeenOrNot())
    assert bool((case.raw(case.sample()).abs() > 1e-6).any())
