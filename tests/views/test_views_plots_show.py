"""Each plot shows the numbers it was given, takes and returns an Axes, and saves as SVG and PNG without a display."""

import io
import itertools
import json
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from regard.core.errors import CaptureError, MaskError, ShapeError
from regard.mask import causal, padding
from regard.views import plots
from regard.views.plots.over_positions import binned_quantiles
from regard.views.plots.token_bar_chart import position_of

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.dirichlet(np.ones(6), 6)
TOKENS = ["the", "cat", "and", "the", "dog", "。"]
EACH = {
    "heatmap": lambda ax: plots.heatmap(WEIGHTS, TOKENS, ax=ax),
    "head_grid": lambda ax: plots.head_grid(np.stack([WEIGHTS] * 3), TOKENS, ax=ax),
    "clustermap": lambda ax: plots.clustermap(WEIGHTS, TOKENS, ax=ax),
    "token_bars": lambda ax: plots.token_bars(WEIGHTS, TOKENS, query="cat", ax=ax),
    "head_similarity": lambda ax: plots.head_similarity(np.abs(np.subtract.outer(range(4), range(4))), ax=ax),
    "overview": lambda ax: plots.overview(WEIGHTS, name="entropy, nats", ax=ax),
    "distance_profile": lambda ax: plots.distance_profile(WEIGHTS, ax=ax),
    "entropy_bands": lambda ax: plots.entropy_bands(WEIGHTS, ax=ax),
    "segment_flow": lambda ax: plots.segment_flow(WEIGHTS[:3, :3], ["a", "b", "c"], ax=ax),
    "lift": lambda ax: plots.lift(WEIGHTS, TOKENS, ax=ax),
    "curves": lambda ax: plots.curves(
        [{"step": s, "layer": 0, "entropy": 1.0 / (s + 1)} for s in range(5)], "entropy", ax=ax
    ),
    "draw_mask": lambda ax: plots.draw_mask(np.tril(np.ones((6, 6), bool)), TOKENS, ax=ax),
}


@pytest.fixture(autouse=True)
def _close():
    plt.close("all")  # what other files left open
    yield
    plt.close("all")


@pytest.mark.parametrize("name", EACH)
def test_a_plot_draws_into_the_axes_it_is_given_and_returns_it(name):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    assert EACH[name](right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()


@pytest.mark.parametrize("name", EACH)
def test_a_plot_makes_its_own_figure_and_saves_as_svg_and_png(name):
    ax = EACH[name](None)
    for form, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        file = io.BytesIO()
        ax.figure.savefig(file, format=form)
        assert file.getvalue().startswith(start)


def test_every_file_in_the_folder_is_a_plot_that_is_offered():
    folder = pathlib.Path(plots.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    homes = {
        value.__module__.rsplit(".", 1)[1]
        for value in vars(plots).values()
        if callable(value) and hasattr(value, "__module__")
    }
    assert files <= homes
    assert set(EACH) <= set(vars(plots))


def test_no_file_bears_the_name_of_a_plot():
    folder = pathlib.Path(plots.__file__).parent
    ours = {
        "one_head",
        "grid_of_heads",
        "clustered",
        "token_bar_chart",
        "similarity_of_heads",
        "layers_by_heads",
        "by_distance",
    }
    assert ours <= {path.stem for path in folder.glob("*.py")}
    assert not ours & set(EACH)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_heatmap_holds_the_weights_whatever_holds_them(dtype):
    weights = torch.tensor(WEIGHTS).to(dtype).requires_grad_()
    shown = plots.heatmap(weights).images[0].get_array()
    assert np.allclose(shown, weights.detach().float().numpy())


def test_a_cell_that_may_not_be_attended_to_is_masked_and_a_zero_is_not():
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    shown = plots.heatmap(weights, allowed=np.tril(np.ones((2, 2), bool))).images[0].get_array()
    assert shown.mask.tolist() == [[False, True], [False, False]]


def test_all_heads_share_one_colour_scale():
    maps = np.stack([WEIGHTS, WEIGHTS / 2])
    ax = plots.head_grid(maps)
    limits = {(panel.images[0].norm.vmin, panel.images[0].norm.vmax) for panel in ax.child_axes if panel.images}
    assert limits == {(0, float(np.float32(WEIGHTS.max())))}


def test_the_clustered_map_is_a_permutation_whose_labels_lead_back():
    ax = plots.clustermap(WEIGHTS, TOKENS)
    main = ax.child_axes[0]
    ax.figure.canvas.draw()
    rows = [int(t.get_text().split()[0]) for t in main.get_yticklabels()]
    columns = [int(t.get_text().split()[0]) for t in main.get_xticklabels()]
    assert sorted(rows) == sorted(columns) == list(range(6))
    assert np.allclose(main.images[0].get_array(), WEIGHTS[np.ix_(rows, columns)])
    assert {t.get_text() for t in main.get_yticklabels()} == {f"{i} {t}" for i, t in enumerate(TOKENS)}


def test_clustering_puts_alike_rows_side_by_side():
    weights = np.array([[0.9, 0.1, 0, 0], [0, 0, 0.1, 0.9], [0.8, 0.2, 0, 0], [0, 0, 0.2, 0.8]])
    main = plots.clustermap(weights, list("abcd")).child_axes[0]
    main.figure.canvas.draw()
    order = "".join(t.get_text()[-1] for t in main.get_yticklabels())
    assert abs(order.index("a") - order.index("c")) == 1
    assert abs(order.index("b") - order.index("d")) == 1


def test_bars_are_the_largest_weights_and_the_rest_in_one_bar():
    ax = plots.token_bars(WEIGHTS, TOKENS, query=2, top=3)
    widths = [bar.get_width() for bar in ax.patches]
    row = np.sort(WEIGHTS[2].astype(np.float32))[::-1]
    assert widths == pytest.approx([*row[:3], row[3:].sum()], rel=1e-6)
    assert ax.get_yticklabels()[3].get_text() == "3 other keys"


def test_a_word_that_occurs_twice_is_refused_with_its_positions():
    assert position_of(("the", 2), TOKENS) == 3
    assert position_of("cat", TOKENS) == 1
    assert position_of(-1, TOKENS) == 5
    with pytest.raises(
        ShapeError, match=r"'the' occurs 2 times, at 0, 3; give the position, or \('the', 1\) for the first"
    ):
        plots.token_bars(WEIGHTS, TOKENS, query="the")
    with pytest.raises(ShapeError, match="no token is 'mat'"):
        position_of("mat", TOKENS)
    with pytest.raises(ShapeError, match="occurrence 3 is not one of 1 to 2"):
        position_of(("the", 3), TOKENS)
    with pytest.raises(ShapeError, match="query 6 is out of range; there are 6 positions, 0 to 5"):
        position_of(6, TOKENS)


def test_alike_heads_stand_together_in_the_similarity_map():
    distance = np.array([[0, 0.9, 0.1, 0.8], [0.9, 0, 0.85, 0.1], [0.1, 0.85, 0, 0.9], [0.8, 0.1, 0.9, 0]])
    main = plots.head_similarity(distance, heads=["a", "b", "c", "d"]).child_axes[0]
    main.figure.canvas.draw()
    order = "".join(t.get_text() for t in main.get_yticklabels())
    assert abs(order.index("a") - order.index("c")) == 1
    places = ["abcd".index(c) for c in order]
    assert np.allclose(main.images[0].get_array(), distance[np.ix_(places, places)])


def test_what_is_not_a_distance_is_refused():
    with pytest.raises(ShapeError, match=r"for a similarity s in 0\.\.1 give 1 - s"):
        plots.head_similarity(np.ones((3, 3)))
    with pytest.raises(ShapeError, match="these are 2 x 3"):
        plots.head_similarity(np.zeros((2, 3)))


def test_lift_is_zero_for_an_even_spread_and_three_for_eight_times_as_much():
    allowed = np.tril(np.ones((16, 16), bool))
    even = allowed / allowed.sum(1, keepdims=True)
    shown = plots.lift(even, allowed=allowed).images[0].get_array()
    assert np.abs(shown.compressed()).max() < 1e-6
    assert (shown.mask == ~allowed).all()
    sharp = np.full((16, 16), 0.5 / 15)
    sharp[:, 3] = 0.5
    assert plots.lift(sharp).images[0].get_array()[0, 3] == pytest.approx(3)


def test_the_overview_writes_its_numbers_and_leaves_unknown_heads_grey():
    scores = np.array([[0.25, np.nan], [1.5, -0.5]])
    ax = plots.overview(scores, name="x", layers=[3, 7], heads=[0, 5])
    assert [t.get_text() for t in ax.texts] == [".25", "1.5", "-.50"]
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["3", "7"]
    assert ax.images[0].get_array().mask.tolist() == [[False, True], [False, False]]


def test_binned_quantiles_are_those_of_numpy_and_skip_nan():
    values = RANDOM.random((5, 23)).astype(np.float32)
    values[2, 4] = np.nan
    edges = np.array([0, 10, 20, 23])
    ours = binned_quantiles(values, edges, (0.1, 0.5, 0.9))
    for place, (a, b) in enumerate(itertools.pairwise(edges)):
        assert ours[:, place] == pytest.approx(np.nanquantile(values[:, a:b], (0.1, 0.5, 0.9)), abs=1e-6)


def test_few_heads_are_lines_with_different_dashes_and_many_are_a_band():
    few = plots.distance_profile(RANDOM.dirichlet(np.ones(5), 4))
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in few.lines}) == 4
    many = plots.distance_profile(RANDOM.dirichlet(np.ones(5), 40))
    assert [t.get_text() for t in many.get_legend().get_texts()] == ["10-90 % of heads", "median of 40 heads"]
    assert [t.get_text() for t in few.get_xticklabels()] == ["0", "1", "2–3", "4–7", "8–15"]
    with pytest.raises(ShapeError, match="5 bins need 6 increasing edges; there are 3"):
        plots.distance_profile(WEIGHTS[:, :5], [0, 1, 2])


def test_the_bands_of_segments_are_as_wide_as_their_mass():
    mass = np.array([[0.75, 0.25], [0.5, 0.5]])
    ax = plots.segment_flow(mass, ["a", "b"])
    bands = [p for p in ax.patches if p.get_alpha() == 0.35]
    heights = [p.get_path().vertices[-2][1] - p.get_path().vertices[0][1] for p in bands]
    assert np.array(heights) / sum(heights) == pytest.approx(mass.ravel() / mass.sum())
    with pytest.raises(ShapeError, match="17 segments cannot be told apart"):
        plots.segment_flow(np.eye(17), [str(i) for i in range(17)])


def test_curves_read_a_file_that_is_still_being_written_and_name_a_broken_line(tmp_path):
    file = tmp_path / "run.jsonl"
    rows = [{"step": s, "layer": layer, "entropy": [s + layer, s + layer + 2]} for s in range(4) for layer in (0, 1)]
    file.write_text("\n".join(map(json.dumps, rows)) + '\n{"step": 4, "lay')
    ax = plots.curves(file, "entropy")
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 2, 3, 4], [2, 3, 4, 5]]
    file.write_text('{"step": 0}\nnot json\n{"step": 1}\n')
    with pytest.raises(CaptureError, match="line 2 is not JSON"):
        plots.curves(file, "entropy")
    with pytest.raises(CaptureError, match="no row has 'step' and 'sink'; the 8 rows have: entropy, layer, step"):
        plots.curves(rows, "sink")


def test_a_mask_object_is_drawn_at_the_size_that_is_asked():
    shown = plots.draw_mask(causal(), queries=5).images[0].get_array()
    assert (shown.filled(0) == np.tril(np.ones((5, 5)))).all()
    with pytest.raises(MaskError, match="give queries="):
        plots.draw_mask(causal())
    with pytest.raises(MaskError, match="differs by sample or head"):
        plots.draw_mask(padding(torch.tensor([[True, False], [True, True]])), queries=2)
    with pytest.raises(MaskError, match="a mask to draw is boolean"):
        plots.draw_mask(np.eye(3))


def test_a_large_mask_says_that_rows_were_left_out():
    ax = plots.draw_mask(causal(), queries=8192)
    assert ax.get_ylabel() == "query (one row in 16 is drawn)"
    assert ax.get_ylim() == (8191.5, -0.5)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def test_without_matplotlib_the_message_names_the_extra():
    said = run_python("import sys; sys.modules['matplotlib'] = None\nimport regard.views.plots")
    assert "MissingExtraError: plots need matplotlib and scipy; install them with: pip install 'regard[viz]'" in said


def test_matplotlib_is_loaded_only_when_a_plot_is_used():
    said = run_python(
        "import sys, regard\nregard.views\nprint('matplotlib' in sys.modules)\nregard.views.plots.heatmap\nprint('matplotlib' in sys.modules)"
    )
    assert said.split() == ["False", "True"]


@pytest.mark.parametrize("fill", [0.25, float("nan")])
def test_heads_with_nothing_to_tell_apart_are_drawn_too(fill):
    weights = np.full((4, 4), 0.25)
    weights[2] = fill
    for ax in (
        plots.clustermap(weights, list("abcd")),
        plots.heatmap(weights, list("abcd")),
        plots.head_similarity(np.zeros((3, 3))),
    ):
        ax.figure.canvas.draw()


def test_a_head_of_one_token_is_a_map_of_one_cell():
    for ax in (
        plots.clustermap([[1.0]], ["a"]),
        plots.heatmap([[1.0]], ["a"]),
        plots.token_bars([[1.0]], ["a"], query=0),
        plots.entropy_bands([[0.0]]),
    ):
        ax.figure.canvas.draw()
