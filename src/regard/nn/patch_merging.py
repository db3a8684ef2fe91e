"""Patch merging: four neighbouring pixels become one with twice the channels, between the stages of Swin.

Axes: B images, C channels, H rows, W columns.
Sources: Liu et al. 2021, arXiv:2103.14030, section 3.1 (version 1: norm, then projection); Liu et al. 2022,
arXiv:2111.09883 (version 2: projection, then norm). Left open there: odd sizes; a row or column of zeros is added below or
right, as in the authors' code, timm and torchvision.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import ShapeError
from regard.nn.feature_map import check_map


class PatchMerging(nn.Module):
    """Halve height and width, rounded up, and project the four pixels to `out_channels`.

    Args:
        channels: C.
        out_channels: None: 2 C.
        version: 1 or 2, of Swin.

    Shapes: (B, C, H, W) to (B, out_channels, ceil(H / 2), ceil(W / 2)).

    >>> PatchMerging(8)(torch.ones(1, 8, 5, 4)).shape
    torch.Size([1, 16, 3, 2])
    """

    def __init__(
        self,
        channels: int,
        out_channels: int | None = None,
        *,
        version: Literal[1, 2] = 1,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if version not in (1, 2):
            raise ShapeError(f"version is 1 or 2, of Swin, got {version!r}")
        out_channels = 2 * channels if out_channels is None else out_channels
        self.channels, self.version = channels, version
        self.norm = nn.LayerNorm(4 * channels if version == 1 else out_channels, device=device, dtype=dtype)
        self.reduction = nn.Linear(4 * channels, out_channels, bias=False, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, out_channels, ceil(H / 2), ceil(W / 2))."""
        check_map(x, self.channels, self)
        pixels = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2)).permute(0, 2, 3, 1)  # (B, H, W, C)
        corners = [pixels[:, down::2, right::2] for right in (0, 1) for down in (0, 1)]  # left pair, then right pair
        four = torch.cat(corners, dim=-1)  # (B, H / 2, W / 2, 4 C)
        merged = self.reduction(self.norm(four)) if self.version == 1 else self.norm(self.reduction(four))
        return merged.permute(0, 3, 1, 2)
