"""The planned peak of memory against the one that a process of its own has; the grid was drawn, and nothing was fitted to it."""

import pytest

from regard.advise.work import Work
from regard.bench import memory
from regard.bench.planned import WITHIN, grid, row_of

pytestmark = pytest.mark.skipif(not memory.can_measure(), reason="the high-water mark of memory is read from /proc")

FEW = [
    (Work(256, 4, batch=4, length=512, layers=2, way="train"), "fused"),
    (Work(256, 4, batch=2, length=1024, layers=1), "open"),
    (Work(256, 4, batch=2, length=2048, layers=2, causal=True, window=64), "window"),
]


@pytest.mark.parametrize(("work", "way"), FEW, ids=lambda x: x if isinstance(x, str) else x.way)
def test_the_planned_peak_is_within_15_percent_of_the_measured_one(work, way):
    row = row_of(work, way)
    assert row["ratio"] <= 1 + WITHIN, row
    assert row["verdict"] == "pass"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(grid())))
def test_the_planned_peak_of_a_drawn_work_is_within_15_percent_of_the_measured_one(number):
    row = row_of(*grid()[number])
    print(f"{row['predicted']:8.0f} {row['found']:8.0f} MiB {row['error']:+7.1%}  {row['name']}")
    assert row["ratio"] <= 1 + WITHIN, row


def test_the_grid_has_24_works_or_more_of_every_kind():
    drawn = grid()
    assert len(drawn) == len({(work, way) for work, way in drawn}) >= 24
    assert {way for _, way in drawn} == {"open", "fused", "window", "linear"}
    assert {work.way for work, _ in drawn} == {"forward", "train", "generate"}
    assert {work.dtype for work, _ in drawn} == {"fp32", "bf16"}
