"""A mask as text: a row per query, a column per key; large masks by blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import MaskError
from regard.core.mask.expression import Mask

WIDEST = 64  # columns that fit a terminal line, with the spaces between them


def drawing(mask: Mask, T: int, S: int, batch: int, head: int) -> str:
    """`#` attends, `.` does not; where a cell stands for several pairs, `+` is some of them."""
    attend = mask.materialise(T, S)
    for axis, index, name in ((0, batch, "samples"), (1, head, "heads")):
        if attend.shape[axis] not in (1,) and not 0 <= index < attend.shape[axis]:
            raise MaskError(f"this mask has {attend.shape[axis]} {name}; there is no number {index}")
    one = attend[batch if attend.shape[0] > 1 else 0, head if attend.shape[1] > 1 else 0].expand(T, S).cpu()
    size = max(1, -(-max(T, S) // WIDEST))
    rows = [" ".join(_cell(cell) for cell in row.split(size, dim=1)) for row in one.split(size, dim=0)]
    return "\n".join(rows)


def _cell(cell: Tensor) -> str:
    return "#" if bool(torch.all(cell)) else "+" if bool(torch.any(cell)) else "."
