"""Make the pictures of docs/vision.md: gates, windows and receptive fields of layers with drawn weights on a made image.

Run from the root of the repository: python docs/make_vision_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import torch
from matplotlib import pyplot as plt

from regard.nn import CBAM, CoordinateAttention, GridAttention, ShiftedWindowAttention
from regard.views.plots.channel_gate_bars import channel_bars
from regard.views.plots.coordinate_gate_lines import row_and_column_gates
from regard.views.plots.gate_maps import gate_over_image
from regard.views.plots.receptive_field import draw_field, field_of_pixel
from regard.views.plots.window_regions import draw_windows
from regard.views.plots.window_weights import weights_over_image

HERE = Path(__file__).parent / "pictures"
CHANNELS = 32


def made_image(rows: int = 24, columns: int = 32) -> torch.Tensor:
    """(1, rows, columns): a bright disc and a bar on a slope."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    disc = ((y - 8) ** 2 + (x - 10) ** 2 < 25).float()
    bar = ((y > 15) & (y < 19) & (x > 6)).float()
    return (disc + 0.8 * bar + x / columns / 4)[None]


def features(image: torch.Tensor) -> torch.Tensor:
    """(1, C, H, W): the image through one drawn convolution, as a stand-in for a network."""
    layer = torch.nn.Conv2d(1, CHANNELS, 5, padding=2)
    return torch.relu(layer(image[None]))


def main() -> None:
    torch.manual_seed(3)
    image = made_image()
    x = features(image)
    gates = CBAM(CHANNELS).inspect(x).gates
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    gate_over_image(gates["spatial"][0, 0], image[0], title="CBAM: spatial gate over the image", ax=left)
    channel_bars(gates["channel"][0, :, 0, 0], title="CBAM: channel gates", ax=right)
    save(figure, "vision_cbam")

    coordinate = CoordinateAttention(CHANNELS).eval().inspect(x * 4).gates
    rows, columns = coordinate["rows"][0, 5, :, 0], coordinate["columns"][0, 5, 0]
    ax = row_and_column_gates(rows, columns, image[0], title="Coordinate attention: channel 5")
    save(ax.figure, "vision_coordinate")

    figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    shifted, grid = ShiftedWindowAttention(CHANNELS, 4, window_size=7), GridAttention(CHANNELS, 4, grid_size=(3, 4))
    draw_windows(shifted.regions(17, 22), title="windows of 7, shifted by 3, on 17 × 22", ax=panels[0])
    draw_windows(grid.regions(6, 9), title="grid of 3 × 4 on 6 × 9", ax=panels[1])
    save(figure, "vision_windows")

    figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    small, pixel = features(made_image(17, 22)), (1, 12)
    field = field_of_pixel(shifted, small, pixel)
    draw_field(field, pixel, regions=shifted.regions(17, 22), ax=panels[0])
    weights_over_image(shifted.inspect(small).weights[0, 0], shifted, pixel, size=(17, 22), ax=panels[1])
    save(figure, "vision_field")


def save(figure, name: str) -> None:
    figure.savefig(HERE / f"{name}.png", dpi=90, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
