"""What the vision plots show: the numbers that were given, at the pixels they belong to."""

import numpy as np
import pytest
import torch

plt = pytest.importorskip("matplotlib.pyplot")

from regard.core.errors import ShapeError  # noqa: E402
from regard.nn.coordinate_attention import CoordinateAttention  # noqa: E402
from regard.nn.grid_attention import GridAttention  # noqa: E402
from regard.nn.shifted_window import ShiftedWindowAttention  # noqa: E402
from regard.views.plots.channel_gate_bars import channel_bars  # noqa: E402
from regard.views.plots.coordinate_gate_lines import row_and_column_gates  # noqa: E402
from regard.views.plots.gate_maps import gate_over_image  # noqa: E402
from regard.views.plots.receptive_field import draw_field, field_of_pixel  # noqa: E402
from regard.views.plots.window_regions import draw_windows  # noqa: E402
from regard.views.plots.window_weights import weights_over_image  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_a_coarse_gate_covers_the_whole_image_in_the_units_of_its_pixels():
    gate = torch.tensor([[0.1, 0.9]])
    ax = gate_over_image(gate, draw(3, 6, 8))
    image, overlay = ax.images
    assert overlay.get_extent() == image.get_extent() == [-0.5, 7.5, 5.5, -0.5]
    np.testing.assert_allclose(overlay.get_array(), gate)
    assert (overlay.norm.vmin, overlay.norm.vmax) == pytest.approx((0.1, 0.9))


def test_a_constant_gate_and_a_grey_image_can_be_drawn_into_a_given_axes():
    _, ax = plt.subplots()
    assert gate_over_image(torch.full((2, 2), 0.5), torch.zeros(1, 4, 4), ax=ax) is ax
    ax.figure.canvas.draw()


def test_a_batch_is_refused_with_the_way_out():
    with pytest.raises(ShapeError, match="choose one sample"):
        gate_over_image(torch.ones(2, 4, 4))
    with pytest.raises(ShapeError, match=r"an image is \(H, W\) or \(3, H, W\), got \(2, 3, 4, 4\)"):
        gate_over_image(torch.ones(4, 4), torch.ones(2, 3, 4, 4))


def test_channel_bars_are_sorted_and_name_the_ends():
    ax = channel_bars(torch.tensor([0.2, 0.9, 0.5, 0.1]), named=1)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([0.9, 0.5, 0.2, 0.1])
    assert [text.get_text().strip() for text in ax.texts] == ["1", "3"]


def test_one_channel_is_named_once():
    assert len(channel_bars(torch.tensor([0.5])).texts) == 1


def test_row_and_column_gates_stand_beside_their_rows_and_columns():
    gates = CoordinateAttention(8).eval().inspect(draw(1, 8, 5, 7)).gates
    ax = row_and_column_gates(gates["rows"][0, 2, :, 0], gates["columns"][0, 2, 0], draw(5, 7))
    right, below = ax.child_axes
    np.testing.assert_allclose(right.lines[0].get_xdata(), gates["rows"][0, 2, :, 0].detach())
    np.testing.assert_allclose(below.lines[0].get_ydata(), gates["columns"][0, 2, 0].detach())
    assert right.get_ylim() == ax.get_ylim()
    assert below.get_xlim() == ax.get_xlim()


def test_an_image_coarser_than_its_gates_is_refused():
    with pytest.raises(ShapeError, match=r"an image of \(2, 2\) is coarser than its gates, 3 rows x 4"):
        row_and_column_gates(torch.ones(3), torch.ones(4), torch.ones(2, 2))


def test_windows_have_a_line_between_every_two_regions_and_their_numbers():
    regions = ShiftedWindowAttention(8, 2, window_size=4).regions(7, 9)
    ax = draw_windows(regions)
    vertical, horizontal = (len(lines.get_segments()) for lines in ax.collections)
    assert vertical == (regions[:, 1:] != regions[:, :-1]).sum()
    assert horizontal == (regions[1:] != regions[:-1]).sum()
    assert len(ax.texts) == regions.max() + 1


def test_the_pixels_of_a_grid_carry_their_region():
    regions = GridAttention(8, 2, grid_size=2).regions(4, 4)
    texts = draw_windows(regions).texts
    found = {(int(t.get_position()[1]), int(t.get_position()[0])): int(t.get_text()) for t in texts}
    assert found == {(i, j): int(regions[i, j]) for i in range(4) for j in range(4)}


def test_the_field_of_a_pixel_is_its_region_and_the_rest_is_left_grey():
    layer, x, pixel = ShiftedWindowAttention(8, 2, window_size=4), draw(1, 8, 7, 9), (6, 3)
    field, regions = field_of_pixel(layer, x, pixel), layer.regions(7, 9)
    assert torch.equal(field > 0, regions == regions[pixel])
    assert not x.requires_grad
    ax = draw_field(field, pixel, regions=regions)
    shown = ax.images[0].get_array()
    np.testing.assert_array_equal(~shown.mask, (regions == regions[pixel]).numpy())
    assert f"{int((field > 0).sum())} of 63 pixels act on (6, 3)" == ax.get_title()


def test_a_pixel_outside_the_output_is_refused():
    with pytest.raises(ShapeError, match=r"pixel \(7, 0\) is not in an output of 7 x 9"):
        field_of_pixel(torch.nn.Identity(), draw(1, 8, 7, 9), (7, 0))


@pytest.mark.parametrize(
    "layer", [ShiftedWindowAttention(8, 2, window_size=4), GridAttention(8, 2, grid_size=3)], ids=["windows", "grid"]
)
def test_the_weights_of_a_pixel_lie_on_the_pixels_they_weigh(layer):
    x, pixel = draw(1, 8, 7, 9), (5, 4)
    weights, regions = layer.inspect(x).weights[0, 1], layer.regions(7, 9)
    shown = weights_over_image(weights, layer, pixel, size=(7, 9)).images[0].get_array()
    inside = (regions == regions[pixel]).numpy()
    np.testing.assert_array_equal(~shown.mask, inside)
    assert shown.sum() == pytest.approx(1, abs=1e-5)
    down, right = layer.partition(7, 9).slots()
    slot = down * layer.window_size[1]
    query = slot[pixel[0]] + right[pixel[1]]
    for i, j in zip(*np.nonzero(inside)):
        expected = weights[regions[pixel], query, slot[i] + right[j]].item()
        assert shown[i, j] == pytest.approx(expected)


def test_weights_without_a_size_are_refused():
    layer = ShiftedWindowAttention(8, 2, window_size=4)
    with pytest.raises(ShapeError, match=r"give size=\(H, W\)"):
        weights_over_image(torch.ones(1, 16, 16), layer, (0, 0))


LAYER = ShiftedWindowAttention(8, 2, window_size=4)
EACH = {
    "gate_over_image": lambda ax: gate_over_image(draw(3, 4), draw(6, 8), ax=ax),
    "channel_bars": lambda ax: channel_bars(draw(80).sigmoid(), ax=ax),
    "row_and_column_gates": lambda ax: row_and_column_gates(draw(5), draw(7), ax=ax),
    "draw_windows": lambda ax: draw_windows(LAYER.regions(7, 9), ax=ax),
    "draw_field": lambda ax: draw_field(torch.zeros(7, 9), (1, 1), ax=ax),
    "weights_over_image": lambda ax: weights_over_image(
        LAYER.inspect(draw(1, 8, 7, 9)).weights[0, 0], LAYER, (2, 2), draw(7, 9), ax=ax
    ),
}


@pytest.mark.parametrize("name", EACH)
def test_a_plot_draws_into_the_axes_it_is_given_or_makes_one_and_can_be_saved(name, tmp_path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    assert EACH[name](right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()
    ax = EACH[name](None)
    ax.figure.savefig(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 1000
