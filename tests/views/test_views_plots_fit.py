"""No tick is drawn that does not fit, labels never overlap, and long inputs are pooled and quick."""

import io
import time

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.errors import ShapeError
from regard.mask import causal, sliding_window
from regard.views import plots
from regard.views.arrays import bin_edges, pool_map
from regard.views.ticks import round_step

LONG = 32_768
SECONDS = 3.0  # of the process, for any plot at 32,768 tokens


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def drawn_boxes(ax, axis):
    ax.figure.canvas.draw()
    ticks = ax.xaxis.get_ticklabels() if axis == "x" else ax.yaxis.get_ticklabels()
    return [t.get_window_extent() for t in ticks if t.get_visible() and t.get_text()]


def overlapping(boxes):
    return [(a, b) for n, a in enumerate(boxes) for b in boxes[n + 1 :] if a.overlaps(b)]


@settings(max_examples=8)
@given(
    count=st.integers(1, 300), side=st.floats(1.5, 9), word=st.sampled_from(["a", "注意", "internationalization", "W"])
)
def test_tick_labels_never_overlap_at_any_size(count, side, word):
    figure = plt.figure(figsize=(side, side), dpi=80)
    ax = plots.heatmap(np.eye(count), [word] * count, ax=figure.add_subplot())
    try:
        for axis in "xy":
            boxes = drawn_boxes(ax, axis)
            assert boxes
            assert overlapping(boxes) == []
    finally:
        plt.close(figure)


def test_a_short_text_shows_every_token_and_a_long_one_round_positions():
    short = plots.heatmap(np.eye(12), [f"t{i}" for i in range(12)])
    short.figure.canvas.draw()
    assert [t.get_text() for t in short.get_yticklabels()] == [f"t{i}" for i in range(12)]
    long = plots.heatmap(np.eye(256), [f"t{i}" for i in range(256)])
    long.figure.canvas.draw()
    numbers = [int(t.get_text()) for t in long.get_yticklabels()]
    assert numbers[:3] == [0, numbers[1], 2 * numbers[1]]
    assert numbers[1] == round_step(numbers[1])


def test_zooming_into_a_long_text_brings_its_tokens_out():
    ax = plots.heatmap(np.eye(256), [f"t{i}" for i in range(256)])
    ax.set(ylim=(109.5, 99.5), xlim=(99.5, 109.5))
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"t{i}" for i in range(100, 110)]


@pytest.mark.parametrize("count", [7, 40, 150])
def test_labels_of_a_clustered_map_do_not_overlap_either(count):
    weights = np.random.default_rng(0).dirichlet(np.ones(count), count)
    main = plots.clustermap(weights, ["权重"] * count).child_axes[0]
    for axis in "xy":
        assert overlapping(drawn_boxes(main, axis)) == []


def test_numbers_are_written_only_into_cells_with_room():
    roomy = plots.overview(np.random.default_rng(0).random((4, 4)), name="s")
    tight = plots.overview(np.random.default_rng(0).random((32, 128)), name="s")
    assert len(roomy.texts) == 16
    assert len(tight.texts) == 0
    boxes = [t.get_window_extent() for t in roomy.texts]
    assert overlapping(boxes) == []


def long_plots():
    random = np.random.default_rng(0)
    tokens = ["词"] * LONG
    pooled = random.dirichlet(np.ones(64), 64)
    row = random.dirichlet(np.ones(LONG), 1)
    return {
        "heatmap": lambda: plots.heatmap(pooled, tokens, size=(LONG, LONG)),
        "head_grid": lambda: plots.head_grid(np.stack([pooled] * 8), tokens, size=(LONG, LONG)),
        "token_bars": lambda: plots.token_bars(row, ["q"], key_tokens=tokens, query=0),
        "entropy_bands": lambda: plots.entropy_bands(random.random((32, LONG), dtype=np.float32)),
        "distance_profile": lambda: plots.distance_profile(random.dirichlet(np.ones(16), 1024)),
        "draw_mask": lambda: plots.draw_mask(causal() & sliding_window(4096, 0), tokens, queries=LONG),
        "lift": lambda: plots.lift(random.random((256, LONG), dtype=np.float32), key_tokens=tokens),
    }


@pytest.mark.parametrize("name", long_plots())
def test_a_plot_of_32768_tokens_takes_under_three_seconds(name):
    make = long_plots()[name]
    plots.heatmap(np.eye(2))  # fonts are loaded once
    start = time.process_time()
    ax = make()
    ax.figure.savefig(io.BytesIO(), format="png")
    assert time.process_time() - start < SECONDS


def test_four_thousand_tokens_of_full_weights_are_pooled_quickly():
    weights = np.zeros((4096, 4096), np.float32)
    start = time.process_time()
    image = plots.heatmap(weights).images[0]
    assert time.process_time() - start < SECONDS
    assert image.get_array().shape == (1024, 1024)


@given(
    rows=st.integers(1, 40), columns=st.integers(1, 40), most=st.integers(1, 12), how=st.sampled_from(["mean", "max"])
)
def test_a_pooled_cell_is_the_mean_or_largest_of_its_cells(rows, columns, most, how):
    values = np.random.default_rng(rows * 41 + columns).random((rows, columns)).astype(np.float32)
    pooled, down, across = pool_map(values, most, how)
    assert max(pooled.shape) <= most
    join = np.mean if how == "mean" else np.max
    for a in range(len(down) - 1):
        for b in range(len(across) - 1):
            cells = values[down[a] : down[a + 1], across[b] : across[b + 1]]
            assert pooled[a, b] == pytest.approx(join(cells), abs=1e-6)


@given(count=st.integers(1, 5000), bins=st.integers(1, 600))
def test_bins_cover_every_position_once(count, bins):
    edges = bin_edges(count, bins)
    assert edges[0] == 0
    assert edges[-1] == count
    assert (np.diff(edges) > 0).all()
    assert len(edges) - 1 <= bins


def test_a_wrong_number_of_axes_or_labels_is_refused_with_the_numbers():
    with pytest.raises(ShapeError, match=r"this plot takes \(T, S\), 2 axes; the values have shape \(1, 2, 3, 3\)"):
        plots.heatmap(np.zeros((1, 2, 3, 3)))
    with pytest.raises(ShapeError, match="2 query labels for 3 positions"):
        plots.heatmap(np.eye(3), ["a", "b"])
    with pytest.raises(ShapeError, match="there is nothing to draw"):
        plots.heatmap(np.zeros((0, 3)))
