"""The vision bench: every line compares the same numbers, and says pass or fall-short by its own ratio."""

import importlib.util

import pytest
import torch
from torch import nn

from regard.bench.gate_costs import GATES, gate_costs
from regard.bench.vision import Pair, measure, pairs, rows

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm")
SAME = 1e-5  # float32, sums of 3,136 values in another order


class Repeated(nn.Module):
    """The same function, computed several times: slower by about that factor."""

    def __init__(self, times):
        super().__init__()
        self.layer, self.times = nn.Linear(64, 64), times
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        for _ in range(self.times):
            result = self.layer(x)
        return result


@pytest.mark.parametrize(("slower", "verdict"), [("peer", "pass"), ("ours", "fall-short")])
def test_a_line_passes_when_ours_takes_less_and_falls_short_when_it_takes_more(slower, verdict):
    ours, peer = (Repeated(20 if slower == name else 1) for name in ("ours", "peer"))
    x = torch.ones(512, 64)
    row = measure(Pair("made", ours, peer, x, x, backward=False, target=1.5), rounds=9)
    assert row["verdict"] == verdict
    assert (row["ratio"] > 3) == (slower == "peer")
    assert row["difference"] == 0
    assert row["ratio"] == pytest.approx(row["peer"] / row["ours"])


@pytest.mark.slow
@needs_timm
def test_every_line_compares_the_same_numbers_and_threads_are_as_before():
    threads = torch.get_num_threads()
    measured = rows(rounds=1)
    assert torch.get_num_threads() == threads
    assert len(measured) == len(list(pairs())) >= 10
    for row in measured:
        assert row["difference"] < SAME, row["name"]
        assert row["verdict"] == ("pass" if row["ratio"] >= row["target"] else "fall-short")
    assert len({row["name"] for row in measured}) == len(measured)


def test_the_cost_of_a_gate_is_counted_per_image_and_timed():
    found = {row["name"]: row for row in gate_costs(32, 6, batch=2, rounds=1)}
    assert list(found) == list(GATES)
    assert found["SqueezeExcitation"]["parameters"] == 32 * 4 + 4 + 4 * 32 + 32
    assert found["SqueezeExcitation"]["flops"] == 2 * (32 * 4 + 4 * 32)
    assert found["CBAM"]["flops"] == 2 * (2 * (32 * 4 + 4 * 32)) + 2 * 2 * 49 * 36
    assert all(row["training"] > row["forward"] > 0 for row in found.values())
