"""Scores that depend on position: ALiBi, relative buckets (T5), window tables (Swin); and softcap.

Axes: B samples, H heads, T queries, S keys. Every bias is (B or 1, H, T, S), to pass to `attention(..., bias=...)`.
Positions are a length n (positions 0 .. n - 1), or integers (N,) or (B or 1, N). The learned tables live in `regard.nn`.
Sources: Press et al. 2021, arXiv:2108.12409 (ALiBi); Raffel et al. 2019, arXiv:1910.10683, section 2.1 (T5 buckets);
Liu et al. 2021, arXiv:2103.14030, section 3.2 (window tables).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import DtypeError, ShapeError

Positions = int | Tensor


def alibi_slopes(num_heads: int) -> Tensor:
    """(H,) float32: the paper's slopes, for any number of heads.

    A power of two gives the geometric sequence that starts at 2^(-8/H). Other numbers take the slopes of the power of two
    below, and then every other slope of the power of two above, as the authors' code does.
    """
    if num_heads < 1:
        raise ShapeError(f"alibi needs at least 1 head, got {num_heads}")
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    slopes += [2 ** (-8 * (i + 1) / (2 * below)) for i in range(0, 2 * (num_heads - below), 2)]
    return torch.tensor(slopes)


def alibi(
    num_heads: int,
    queries: Positions,
    keys: Positions,
    *,
    slopes: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """-slope * |query - key|: what is far counts less. Use with `mask=causal()` for the paper's decoder.

    Args:
        num_heads: H.
        queries, keys: Where they stand; lengths or integer positions.
        slopes: (H,), in place of the paper's.
        dtype: Of the result. In 16 bits distances beyond 256 fall together; float32 is kept beside 16-bit queries.

    Returns:
        (B or 1, H, T, S).
    """
    distance = _distance(queries, keys, device).abs()  # (B or 1, T, S)
    slopes = alibi_slopes(num_heads) if slopes is None else slopes
    if tuple(slopes.shape) != (num_heads,):
        raise ShapeError(f"slopes must be ({num_heads},), got {tuple(slopes.shape)}")
    slopes = slopes.to(device=distance.device, dtype=torch.promote_types(dtype, torch.float32))
    return (-slopes[:, None, None] * distance[:, None]).to(dtype)


def relative_buckets(
    distance: Tensor, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Tensor:
    """The T5 bucket of each distance key - query: one per small distance, logarithmically wider ones up to max_distance.

    Args:
        distance: integer, any shape.
        num_buckets: Their number; with `bidirectional` half of them are for later keys.
        max_distance: From here on all distances share the last bucket.
        bidirectional: False gives every later key bucket 0, for causal attention.

    Returns:
        int64, the shape of `distance`, from 0 to num_buckets - 1.
    """
    buckets = num_buckets // 2 if bidirectional else num_buckets
    exact = buckets // 2
    if exact < 1 or max_distance <= exact:
        raise ShapeError(
            f"{num_buckets} buckets and max_distance={max_distance} leave no room: max_distance > {max(exact, 1)}"
        )
    start = (distance > 0).long() * buckets if bidirectional else torch.zeros_like(distance, dtype=torch.int64)
    far = (distance.abs() if bidirectional else (-distance).clamp(min=0)).long()
    ratio = torch.log(far.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    wide = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return start + torch.where(far < exact, far, wide)


def relative(
    table: Tensor,
    queries: Positions,
    keys: Positions,
    *,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    """T5's relative bias: one number per head and bucket of distance.

    Args:
        table: (num_buckets, H), learned.
        queries, keys: Where they stand; lengths or integer positions.
        max_distance, bidirectional: As in `relative_buckets`.

    Returns:
        (B or 1, H, T, S), the dtype of the table, with its gradient.
    """
    if table.ndim != 2:
        raise ShapeError(f"table must be (num_buckets, H), got {tuple(table.shape)}")
    bucket = relative_buckets(
        _distance(queries, keys, table.device),
        num_buckets=table.shape[0],
        max_distance=max_distance,
        bidirectional=bidirectional,
    )
    return table[bucket].permute(0, 3, 1, 2)


def window_index(height: int, width: int, *, device: torch.device | str | None = None) -> Tensor:
    """(height * width, height * width) int64: the row of a window table for each pair of places in a window.

    Places go row by row; the pair's row is (dy + height - 1) * (2 * width - 1) + dx + width - 1, of query minus key.
    """
    y = torch.arange(height, device=device).repeat_interleave(width)
    x = torch.arange(width, device=device).repeat(height)
    down, right = y[:, None] - y[None], x[:, None] - x[None]
    return (down + height - 1) * (2 * width - 1) + right + width - 1


def window_table(table: Tensor, window: int | tuple[int, int]) -> Tensor:
    """Swin's relative bias of a window: one number per head and offset in two dimensions.

    Args:
        table: ((2h - 1) * (2w - 1), H), learned; of this window, or see `resize_window_table`.
        window: Its height and width in tokens; an int for a square.

    Returns:
        (1, H, h * w, h * w), the dtype of the table, with its gradient.
    """
    height, width = (window, window) if isinstance(window, int) else window
    rows = (2 * height - 1) * (2 * width - 1)
    if table.ndim != 2 or table.shape[0] != rows:
        raise ShapeError(
            f"a window of {height} x {width} needs a table of ({rows}, H), got {tuple(table.shape)}; "
            "resize_window_table() makes one from another window's"
        )
    return table[window_index(height, width, device=table.device)].permute(2, 0, 1)[None]


def resize_window_table(table: Tensor, old: int | tuple[int, int], new: int | tuple[int, int]) -> Tensor:
    """The table of another window size, by bicubic interpolation over the offsets; in float32 for 16-bit tables.

    Args:
        table: ((2h - 1) * (2w - 1), H) of the old window.

    Returns:
        ((2h' - 1) * (2w' - 1), H) of the new window, the dtype of the table.
    """
    (h, w), (height, width) = ((s, s) if isinstance(s, int) else s for s in (old, new))
    if table.ndim != 2 or table.shape[0] != (2 * h - 1) * (2 * w - 1):
        raise ShapeError(
            f"the table of a {h} x {w} window is ({(2 * h - 1) * (2 * w - 1)}, H), got {tuple(table.shape)}"
        )
    if (h, w) == (height, width):
        return table
    grid = table.to(torch.promote_types(table.dtype, torch.float32)).T.reshape(1, -1, 2 * h - 1, 2 * w - 1)
    size = (2 * height - 1, 2 * width - 1)
    resized = F.interpolate(grid, size=size, mode="bicubic", align_corners=True)  # the outermost offsets stay outermost
    return resized.reshape(table.shape[1], -1).T.to(table.dtype)


def softcap(scores: Tensor, cap: float) -> Tensor:
    """cap * tanh(scores / cap): close to the scores while they are small, never beyond +-cap."""
    if not cap > 0:
        raise ShapeError(f"softcap must be > 0, got {cap}")
    return cap * torch.tanh(scores / cap)


def _distance(queries: Positions, keys: Positions, device: torch.device | str | None) -> Tensor:
    """(B or 1, T, S) integer: key - query."""
    if isinstance(queries, int) and isinstance(keys, int) and queries != keys:
        raise ShapeError(
            f"{queries} queries and {keys} keys: say where the queries stand, "
            f"torch.arange({keys - queries}, {keys}) for the last {queries}"
        )
    query, key = _placed("queries", queries, device), _placed("keys", keys, device)
    return key[:, None, :] - query[:, :, None]


def _placed(name: str, positions: Positions, device: torch.device | str | None) -> Tensor:
    if isinstance(positions, int | torch.SymInt):
        return torch.arange(positions, device=device)[None]
    if positions.dtype.is_floating_point or positions.dtype == torch.bool:
        raise DtypeError(f"{name} are a length or integer positions, got {positions.dtype}")
    if positions.ndim not in (1, 2):
        raise ShapeError(f"{name} are a length, (N,) or (B or 1, N), got {tuple(positions.shape)}")
    placed = positions if positions.ndim == 2 else positions[None]
    return placed if device is None else placed.to(device)
