"""A window as overlapping blocks: views of the tensors that were given, and one small mask for all of them.

Axes: N streams (heads that share a mask), T queries, S keys, D channels, M blocks, R rows of a block, K keys of a block.
Each block of R queries needs the R + left + right keys around it. Blocks away from both ends look alike, so they go through
the kernel together; those at the ends see fewer keys and go alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 1 << 21  # numbers in the output, and in the mask, of one kernel call: what is held beside the result

LEAST = 128  # rows of a block: below, the kernel's matrix products become narrow


@dataclass(frozen=True)
class Piece:
    """M blocks of R rows from row `row`, each with K keys; block m starts R further, at row and at key.

    `first` is the distance of the first key from the first row in positions (with the offset): -left or more.
    """

    row: int
    blocks: int
    rows: int
    key: int
    keys: int
    first: int

    def queries(self, x: Tensor) -> Tensor:
        """(N, T, ..) as (N, M, R, ..), a view."""
        return x[:, self.row : self.row + self.blocks * self.rows].unflatten(1, (self.blocks, self.rows))

    def around(self, x: Tensor) -> Tensor:
        """(N, S, D) as (N, M, K, D), overlapping: a view to read from only."""
        N, _, D = x.shape
        step, width = x.stride(1), x.stride(2)
        start = x.storage_offset() + self.key * step
        return x.as_strided((N, self.blocks, self.keys, D), (x.stride(0), self.rows * step, step, width), start)

    def add_around(self, total: Tensor, parts: Tensor) -> None:
        """Add (N, M, K, D) to the places of `total` (N, S, D) that `around` reads, overlaps summed."""
        for at in range(0, self.keys, self.rows):  # the at-th keys of all blocks lie apart
            width = min(self.rows, self.keys - at)
            moved = Piece(self.row, self.blocks, self.rows, self.key + at, width, self.first)
            moved.around(total).add_(parts[:, :, at : at + width])

    def pairs(self, table: Tensor) -> Tensor:
        """(N, T, S) as (N, M, R, K), a view."""
        down, right = table.stride(1), table.stride(2)
        start = table.storage_offset() + self.row * down + self.key * right
        size = (table.shape[0], self.blocks, self.rows, self.keys)
        return table.as_strided(size, (table.stride(0), self.rows * (down + right), down, right), start)


def block_rows(left: int, right: int, T: int) -> int:
    """Rows of a block: an eighth of the window, so that few keys are read in vain, but enough for the matrix product."""
    return max(1, min(T, max(LEAST, (left + right) // 8)))


def pieces(T: int, S: int, left: int, right: int, offset: int, size: int) -> list[Piece]:
    """The pieces of a call: of at most `size` blocks each. Every row is in one; rows that see no key are in none."""
    R = block_rows(left, right, T)
    made: list[Piece] = []
    inside = [m for m in range(T // R) if m * R + offset - left >= 0 and m * R + R + offset + right <= S]
    for m in range(-(-T // R)):
        if inside and inside[0] <= m <= inside[-1]:
            continue
        rows = min(R, T - m * R)
        begin, end = max(0, m * R + offset - left), min(S, m * R + rows + offset + right)
        if begin < end:
            made.append(Piece(m * R, 1, rows, begin, end - begin, begin - m * R - offset))
    for start in range(0, len(inside), size):
        blocks = inside[start : start + size]
        row = blocks[0] * R
        made.append(Piece(row, len(blocks), R, row + offset - left, R + left + right, -left))
    return made


def added_mask(
    piece: Piece,
    left: int,
    right: int,
    dtype: torch.dtype,
    device: torch.device,
    keep: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """What is added to the scores of a piece: 0 or the bias where it attends, -inf elsewhere.

    Args:
        keep: (S,) bool or None. bias: (N, T, S) or None.

    Returns:
        (N or 1, M or 1, R, K).
    """
    distance = torch.arange(piece.keys, device=device)[None] - torch.arange(piece.rows, device=device)[:, None]
    distance = distance + piece.first
    attend = ((distance >= -left) & (distance <= right))[None, None]  # (1, 1, R, K)
    if keep is not None:
        attend = attend & piece.around(keep[None, :, None])[..., 0][:, :, None]
    if bias is None:
        return 1.0 - attend.to(dtype).reciprocal()  # 0 or -inf
    return torch.where(attend, piece.pairs(bias).to(dtype), float("-inf"))
