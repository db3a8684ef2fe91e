"""Mask arguments are understood in every shape, dtype and polarity; what is no mask is left alone; caches are found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.checks.attempt import Failure, attempt, failures_that_tell
from regard.checks.call import Source
from regard.checks.check import check
from regard.checks.infer import infer_call
from regard.checks.layout import Layout
from regard.checks.mask_use import MaskUse
from regard.checks.plan import fixed_arguments, read_signature
from regard.checks.prepare import prepare
from regard.checks.subject import Subject

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


class Crowd(nn.Module):
    """Agents that may be absent: they are hidden as keys, and the mean is over those that are there."""

    def __init__(self, dim=24):
        super().__init__()
        self.qkv, self.vote = nn.Linear(dim, 3 * dim), nn.Linear(dim, 5)

    def forward(self, agents, is_absent):
        q, k, v = self.qkv(agents).chunk(3, -1)
        logits = q @ k.mT * q.shape[-1] ** -0.5 - 1e9 * is_absent.to(q.dtype)[:, None]
        there = 1 - is_absent.to(q.dtype)[..., None]
        return self.vote((logits.softmax(-1) @ v * there).sum(1) / there.sum(1))


def test_who_is_absent_is_a_mask_and_nobody_is_at_first():
    case = prepare(Crowd)
    assert list(case.call.arguments) == ["agents"]
    tokens = case.sample()
    assert not case.call.fixed["is_absent"](tokens, torch.float64).any()
    use = next(u for u in case.masks if u.parameter == "is_absent")
    assert (use.works, use.polarity) == (True, "drop")


def test_a_mean_over_nobody_is_asked_about():
    levels = {f.level for f in check(Crowd).findings if f.rule == "ATT601"}
    assert levels == {"question"}


def test_a_name_says_whether_a_mask_begins_with_ones():
    def forward(x, visible, ignore_mask, gate_mask):
        """ignore_mask: what is left out."""

    signature = read_signature(forward)
    opened = fixed_arguments(signature, (6,))[2]
    tokens = {"x": torch.zeros(3, 7, 4)}
    values = {n: float(opened[n](tokens, torch.float32).float().mean()) for n in signature.masks}
    assert values == {"visible": 1.0, "ignore_mask": 0.0, "gate_mask": 1.0}


class Forecast(nn.Module):
    """Steps to come read a history that is padded behind."""

    def __init__(self, dim=24):
        super().__init__()
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, past, steps, past_lengths):
        k, v = self.kv(past).chunk(2, -1)
        known = torch.arange(past.shape[1]) < past_lengths[:, None]
        logits = (self.q(steps) @ k.mT * k.shape[-1] ** -0.5).masked_fill(~known[:, None], -1e9)
        return logits.softmax(-1) @ v


def test_a_past_with_lengths_is_a_stream_and_no_cache():
    case = prepare(Forecast)
    assert case.call.arguments == {"steps": "query", "past": "context"}
    assert [(u.parameter, u.source, u.works) for u in case.masks] == [("past_lengths", "context", True)]


class Split(nn.Module):
    """Keys and values of earlier tokens come as two arguments and go back as two tensors."""

    def __init__(self, dim=24):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def later(self, new, keys):
        return torch.ones(new, keys, dtype=torch.bool).triu(keys - new + 1)

    def forward(self, x, key_cache=None, value_cache=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        if key_cache is not None:
            k, v = torch.cat([key_cache, k], 1), torch.cat([value_cache, v], 1)
        hide = self.later(x.shape[1], k.shape[1])
        return (q @ k.mT * 24**-0.5).masked_fill(hide, -torch.inf).softmax(-1) @ v, k, v


class Cornered(Split):
    """The triangle starts in the corner of the cache."""

    later = staticmethod(lambda new, keys: torch.ones(new, keys, dtype=torch.bool).triu(1))


def test_keys_and_values_may_be_cached_apart():
    case = prepare(Split)
    assert (case.cache.style, case.cache.parameter, case.cache.values) == ("returned", "key_cache", "value_cache")
    assert not [f for f in check(Split).findings if f.level in ("error", "warning")]


def test_a_fault_of_a_cache_in_two_arguments_is_found():
    assert "ATT203" in {f.rule for f in check(Cornered).findings if f.level == "error"}


class Nodes(nn.Module):
    """A graph without an axis of items, whose edges must be given."""

    def __init__(self, dim=20):
        super().__init__()
        self.lift, self.give, self.take = nn.Linear(dim, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, nodes, adj):
        z = self.lift(nodes)
        pull = nn.functional.leaky_relu(self.take(z) + self.give(z).t(), 0.2)
        return torch.mm(pull.masked_fill(adj <= 0, -1e9).softmax(1), z)


def test_where_none_is_not_enough_the_layout_is_kept_and_the_argument_given():
    subject = Subject(Nodes())
    call = infer_call(subject, seconds=5.0)
    assert call.sources["x"].layout.axes == "LD"
    assert bool(call.fixed["adj"](case_tokens(call), torch.float32).all())


def case_tokens(call):
    return {n: s.sample(torch.Generator().manual_seed(0)) for n, s in call.sources.items()}


def test_other_values_are_left_when_the_failure_is_the_same():
    errors: list[Failure] = []
    signature = read_signature(Nodes().forward)
    source = Source(Layout("LD"), 1, (7,), 13)  # a width that the first layer refuses
    assert attempt(Subject(Nodes()), signature, {"nodes": "x"}, {"x": source}, errors, further=True) is None
    assert len(errors) == failures_that_tell(signature) < 14
