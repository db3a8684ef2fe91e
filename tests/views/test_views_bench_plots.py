"""Pictures of the bench: what is drawn are the numbers, and what falls short is marked by more than a colour."""

import matplotlib.pyplot as plt
import pytest

from regard.bench.lengths import slope
from regard.core.errors import ShapeError
from regard.views import plots

ROWS = [
    {"name": "window", "against": "peer", "ratio": 5.0, "target": 4.0, "sense": "at least", "verdict": "pass"},
    {
        "name": "statistics",
        "against": "torch",
        "ratio": 2.1,
        "target": 1.9,
        "sense": "at most",
        "verdict": "fall-short",
    },
    {"name": "capture", "against": "eager", "ratio": 0.5, "target": None, "sense": "at least", "verdict": "shown"},
    {"name": "memory", "against": "itself", "ratio": 0.2, "value": 20, "verdict": "pass"},
]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_bars_are_the_ratios_and_a_row_that_falls_short_is_hatched_and_says_so():
    ax = plots.ratio_bars(ROWS)
    assert [bar.get_width() for bar in ax.patches] == [5.0, 2.1, 0.5]
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, True, False]
    assert [text.get_text() for text in ax.texts] == ["5.00  ≥4", "2.10  ≤1.9  falls short", "0.50  "]
    assert [list(line.get_xdata()) for line in ax.lines] == [[4.0, 4.0], [1.9, 1.9]]
    with pytest.raises(ShapeError, match="none of the 1 rows compares two times"):
        plots.ratio_bars(ROWS[3:])


def test_cost_is_drawn_on_logarithmic_axes_with_the_slope_in_the_legend():
    made = {"name": "full", "lengths": [64, 128, 256], "ms": [1.0, 4.0, 16.0]}
    made["slope"] = slope(made["lengths"], made["ms"])
    assert made["slope"] == pytest.approx(2.0)
    ax = plots.cost_by_length([made])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["full (slope 2.00)"]
    assert list(ax.lines[0].get_ydata()) == made["ms"]
    with pytest.raises(ShapeError, match="full: 3 lengths and 1 times"):
        plots.cost_by_length([{**made, "ms": [1.0]}])
    with pytest.raises(ShapeError, match="there is no curve to draw"):
        plots.cost_by_length([])


def test_the_slope_is_that_of_the_long_half():
    assert slope([1, 2, 4, 8, 16], [1, 1, 1, 2, 4]) == pytest.approx(1.0)
