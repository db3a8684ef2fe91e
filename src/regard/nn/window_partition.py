"""How an image is cut into regions inside which pixels attend to each other: windows, shifted windows, grids; at any size.

Axes: B images, H rows, W columns, C channels, N pixels of a window.

The definitions, for one axis of length L (rows and columns are cut independently, and two pixels meet when they meet on
both axes):

- windows of w, shifted by s:  i and j meet when floor((i - s) / w) = floor((j - s) / w); s counts as 0 where L <= w.
- grid of g cells, c = ceil(L / g):  i and j meet when i mod c = j mod c.

Source of the windows: Liu et al. 2021, arXiv:2103.14030, section 3.2. There the image is rolled, so that pieces of two
borders share a window, and a mask keeps them apart. Here the pieces are windows of their own, only smaller: the same
function without a roll, without padding and without a mask, and so without a constant for what is hidden.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import ShapeError


class Segment(NamedTuple):
    """Neighbouring cells of one size on one axis: `count` cells of `size`, the first at `start`."""

    start: int
    count: int
    size: int

    @property
    def stop(self) -> int:
        """Where the last cell ends."""
        return self.start + self.count * self.size


class Partition(NamedTuple):
    """An image cut into regions.

    Attributes:
        rows, columns: The cells of each axis, from first to last, without gaps.
        row_order, column_order: Where the rows (columns) of the cut image come from, or None for their own places.
    """

    rows: tuple[Segment, ...]
    columns: tuple[Segment, ...]
    row_order: tuple[int, ...] | None = None
    column_order: tuple[int, ...] | None = None

    @property
    def counts(self) -> tuple[int, int]:
        """How many regions stand below each other, and how many side by side."""
        return sum(s.count for s in self.rows), sum(s.count for s in self.columns)

    def regions(self) -> Tensor:
        """(H, W) integer: the region of every pixel, counted along rows. Pixels attend to each other inside a region."""
        rows, columns = _cell_of(self.rows, self.row_order), _cell_of(self.columns, self.column_order)
        return rows[:, None] * self.counts[1] + columns[None]

    def slots(self) -> tuple[Tensor, Tensor]:
        """(H,) and (W,) integer: the place of every row and every column inside its region."""
        return _slot_of(self.rows, self.row_order), _slot_of(self.columns, self.column_order)


def window_partition(x: Tensor, window_size: tuple[int, int]) -> Tensor:
    """Cut an image into windows, when they fit without a rest.

    Args:
        x: (B, H, W, C).
        window_size: Rows and columns of a window; they divide H and W.

    Returns:
        (B, H W / N, N, C): windows counted along rows, and their pixels counted along rows.

    Raises:
        ShapeError: A window does not divide the image.

    >>> window_partition(torch.arange(8).view(1, 2, 4, 1), (2, 2))[0, :, :, 0].tolist()
    [[0, 1, 4, 5], [2, 3, 6, 7]]
    """
    B, H, W, C = x.shape
    rows, columns = window_size
    if min(window_size) < 1 or H % rows or W % columns:
        raise ShapeError(
            f"windows of {rows} x {columns} do not divide an image of {H} x {W}; WindowAttention takes any"
        )
    cells = x.reshape(B, H // rows, rows, W // columns, columns, C).transpose(2, 3)
    return cells.reshape(B, H // rows * (W // columns), rows * columns, C)


def window_merge(windows: Tensor, window_size: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Put the windows of `window_partition` back.

    Args:
        windows: (B, H W / N, N, C).
        window_size: Rows and columns of a window.
        size: H and W.

    Returns:
        (B, H, W, C).

    Raises:
        ShapeError: The windows are not as many or not as large as the two sizes say.
    """
    B, count, N, C = windows.shape
    (rows, columns), (H, W) = window_size, size
    if rows * columns != N or H % rows or W % columns or count * N != H * W:
        raise ShapeError(f"{count} windows of {N} pixels do not fill {H} x {W} with windows of {rows} x {columns}")
    cells = windows.reshape(B, H // rows, W // columns, rows, columns, C).transpose(2, 3)
    return cells.reshape(B, H, W, C)


def window_cells(size: tuple[int, int], window_size: tuple[int, int], shift: tuple[int, int] = (0, 0)) -> Partition:
    """The windows of an image of any size. A few additions: nothing is worth keeping per size.

    Args:
        size: H and W.
        window_size: Rows and columns of a window.
        shift: By how much the windows are moved down and right; each in [0, window).

    >>> window_cells((9, 4), (4, 4), (1, 1)).regions()[:, 0].tolist()
    [0, 1, 1, 1, 1, 2, 2, 2, 2]
    """
    for length, window, by in zip(size, window_size, shift):
        if length < 1 or window < 1 or not 0 <= by < window:
            raise ShapeError(f"a window of {window} shifted by {by} on {length} pixels; a shift is 0 to {window - 1}")
    rows, columns = (_window_segments(*axis) for axis in zip(size, window_size, shift))
    return Partition(rows, columns)


def grid_cells(size: tuple[int, int], grid_size: tuple[int, int]) -> Partition:
    """The dilated regions of grid attention, for an image of any size.

    Args:
        size: H and W.
        grid_size: How many pixels of each axis a region has at most.

    >>> grid_cells((6, 1), (3, 1)).regions()[:, 0].tolist()
    [0, 1, 0, 1, 0, 1]
    """
    for length, grid in zip(size, grid_size):
        if length < 1 or grid < 1:
            raise ShapeError(f"a grid of {grid} on {length} pixels; both must be 1 or more")
    rows, columns = (_grid_segments(*axis) for axis in zip(size, grid_size))
    row_order, column_order = (_grid_order(*axis) for axis in zip(size, grid_size))
    return Partition(rows, columns, row_order, column_order)


def _window_segments(length: int, window: int, shift: int) -> tuple[Segment, ...]:
    if length <= window:
        return (Segment(0, 1, length),)
    whole = (length - shift) // window
    rest = length - shift - whole * window
    cut = Segment(0, 1, shift), Segment(shift, whole, window), Segment(length - rest, 1, rest)
    return tuple(segment for segment in cut if segment.count and segment.size)


def _grid_segments(length: int, grid: int) -> tuple[Segment, ...]:
    cells = -(-length // grid)  # regions on this axis
    members = -(-length // cells)  # of the first regions; the others have one less
    full = length - cells * (members - 1)
    cut = Segment(0, full, members), Segment(full * members, cells - full, members - 1)
    return tuple(segment for segment in cut if segment.count and segment.size)


def _grid_order(length: int, grid: int) -> tuple[int, ...]:
    cells = -(-length // grid)
    return tuple(i for first in range(cells) for i in range(first, length, cells))


def _cell_of(segments: tuple[Segment, ...], order: tuple[int, ...] | None) -> Tensor:
    sizes = [size for _, count, size in segments for _ in range(count)]
    return _home(torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)), order)


def _slot_of(segments: tuple[Segment, ...], order: tuple[int, ...] | None) -> Tensor:
    return _home(torch.cat([torch.arange(size).repeat(count) for _, count, size in segments]), order)


def _home(values: Tensor, order: tuple[int, ...] | None) -> Tensor:
    return values if order is None else values[torch.tensor(order).argsort()]
