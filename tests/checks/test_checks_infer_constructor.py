"""Constructor arguments are found from names, annotations, comparisons and trial."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from regard.checks.build import build, builds
from regard.checks.constructor import literals
from regard.core.errors import TargetError


class Kind(enum.Enum):
    FULL = "full"
    LOCAL = "local"


@dataclass
class Settings:
    d_model: int
    n_head: int
    rope_width: int
    causal: bool
    dropout: float = 0.0


class Core(nn.Module):
    def __init__(self, head_dim: int):
        super().__init__()
        self.scale = head_dim**-0.5

    def forward(self, q, k, v):
        return (q @ k.mT * self.scale).softmax(-1) @ v


class Plain(nn.Module):
    def __init__(self, dim, num_heads, attn_drop=0.0):
        super().__init__()
        assert dim % num_heads == 0
        self.dim, self.num_heads, self.rate = dim, num_heads, attn_drop

    def forward(self, x):
        return x


class Typed(nn.Module):
    def __init__(self, settings: Settings, kind: Kind, core: Core | None, inner: Any = None):
        super().__init__()
        assert isinstance(settings, Settings)
        assert isinstance(kind, Kind)
        assert isinstance(core, Core)
        self.width = settings.d_model // settings.n_head + settings.rope_width

    def forward(self, x):
        return x


class Duck(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.project = nn.Linear(config.hidden_size, config.get("kv_rank_size", 6) + config.strange_width)

    def forward(self, x):
        return x


class Picky(nn.Module):
    def __init__(self, dim, attn_type, axis_kind):
        super().__init__()
        assert attn_type in {"short", "long"}
        if axis_kind == 1:
            self.axis = 1
        elif axis_kind == -1:
            self.axis = -1
        else:
            raise ValueError(f"axis_kind {axis_kind}")
        self.kind = attn_type

    def forward(self, x):
        return x


class Wrapping(nn.Module):
    def __init__(self, dim, core, norm_layer, window_size, causal_mask):
        super().__init__()
        self.norm, self.core = norm_layer(dim), core
        self.rows, self.columns = window_size
        assert causal_mask is None
        core(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.zeros(1, 2, 3))

    def forward(self, x):
        return x


def test_names_give_sizes_that_divide_and_dropout_is_turned_on():
    made, arguments = build(Plain)
    assert arguments == {"dim": 32, "num_heads": 4, "attn_drop": 0.1}
    assert made.rate == 0.1


def test_annotated_data_classes_enumerations_and_modules_are_made():
    made, arguments = build(Typed)
    assert arguments["settings"].d_model == 32
    assert arguments["kind"] is Kind.FULL
    assert made.width == 16


def test_a_configuration_object_answers_by_the_role_of_a_name():
    made, _ = build(Duck)
    assert made.heads == 4
    assert made.project.in_features == 32


def test_the_constants_that_a_constructor_compares_with_are_tried():
    assert set(literals(Picky, "attn_type")) == {"short", "long"}
    assert literals(Picky, "axis_kind") == [1, -1]
    made, _ = build(Picky)
    assert made.kind in ("short", "long")


def test_a_module_is_found_among_the_classes_of_the_same_file():
    made, _ = build(Wrapping)
    assert isinstance(made.core, Core)
    assert isinstance(made.norm, nn.LayerNorm)
    assert (made.rows, made.columns) == (4, 4)


def test_further_instances_have_other_sizes():
    widths = [arguments["dim"] for _, arguments in builds(Plain)]
    assert len(set(widths)) > 2


def test_what_cannot_be_built_says_why_and_how_to_help():
    class Stubborn(nn.Module):
        def __init__(self, dim):
            raise ValueError(f"no width {dim} here")

    with pytest.raises(TargetError, match=r"Stubborn could not be built: ValueError: no width 32 here\. Name its arg"):
        build(Stubborn)


def test_named_arguments_win_and_unknown_ones_are_refused():
    assert build(Plain, {"num_heads": 2})[1]["num_heads"] == 2
    with pytest.raises(TargetError, match="has no argument 'heads'"):
        build(Plain, {"heads": 2})


class Broken(nn.Module):
    """Runs only with the switch on, as packages do whose other path was never tried."""

    def __init__(self, causal_mask=False, use_fast=False, num_classes=1000, activation=None):
        super().__init__()
        self.use_fast, self.num_classes, self.activation = use_fast, num_classes, activation


def test_switches_are_tried_the_other_way_and_layers_that_are_none_and_large_counts_are_replaced():
    made = [m for m, _ in builds(Broken)]
    assert any(m.use_fast for m in made)
    assert any(m.activation is nn.GELU and m.num_classes == 1000 for m in made)
    assert any(m.num_classes < 10 for m in made)
    assert not made[0].use_fast
    assert made[0].activation is None


class Sided(nn.Module):
    """Unpacks its sizes, multiplies by a factor and asks a switch: none of these is a width or an activation."""

    def __init__(self, q_size, kv_size, range_factor, no_offset):
        super().__init__()
        self.q_h, self.q_w = q_size
        self.kv_h, self.kv_w = kv_size
        self.area, self.moves = self.q_h * range_factor, not no_offset


def test_what_is_unpacked_is_a_pair_a_factor_is_no_activation_and_a_switch_is_off():
    made, arguments = build(Sided)
    assert len(arguments["q_size"]) == len(arguments["kv_size"]) == 2
    assert isinstance(made.area, int)
    assert arguments["no_offset"] is False


class Starts(nn.Module):
    def __init__(self, dim: int, start: float):
        super().__init__()
        self.left = 1 - start


def test_a_number_that_nothing_describes_is_neither_zero_nor_one():
    assert build(Starts)[0].left not in (0.0, 1.0)
