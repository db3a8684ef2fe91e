"""Random features whose products estimate exp(q . k): positive, orthogonal, and scaled so that no row knows a later key.

Axes: B samples, H query heads, G key heads, T queries, S keys, D channels of a head, F random directions.
exp(q . k) = mean over w ~ N(0, I) of exp(w . q - |q|^2 / 2) exp(w . k - |k|^2 / 2).
Source: Choromanski et al. 2021, arXiv:2009.14794, sections 2.3 (positive features) and 2.4 (orthogonal directions).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.linear import Features


def draw_directions(count: int, width: int, *, generator: torch.Generator | None = None) -> Tensor:
    """(count, width) in float32 on the CPU: each direction is N(0, I), and `width` in a row are orthogonal.

    Args:
        generator: None: torch's global one.

    Raises:
        ShapeError: Fewer than one direction or channel.
    """
    if min(count, width) < 1:
        raise ShapeError(f"random features need at least one direction and one channel, got {count} and {width}")
    blocks = []
    for _ in range(-(-count // width)):
        basis, upper = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
        blocks.append((basis * upper.diagonal().sign()).mT)  # the sign makes it uniform among all rotations
    lengths = torch.randn(count, width, generator=generator, dtype=torch.float64).norm(dim=1, keepdim=True)
    return (torch.cat(blocks)[:count] * lengths).float()


def random_features(query: Tensor, key: Tensor, directions: Tensor, *, scale: float) -> Features:
    """Features whose product estimates exp(scale q . k).

    A factor per query cancels in the normaliser, so |q|^2 and the row's largest exponent are left out. Each key keeps its
    own largest exponent apart (`Features.exponent`), which the sum takes in by order: a stabiliser over all keys, as
    in released code, would tell earlier rows about later keys.

    Args:
        query, key: (B, H, T, D), (B, G, S, D).
        directions: (F, D).
    """
    directions = directions.to(query.dtype) * scale**0.5
    along = query @ directions.mT  # (B, H, T, F)
    of_query = (along - along.detach().amax(dim=-1, keepdim=True)).exp()
    along = key @ directions.mT - key.square().sum(dim=-1, keepdim=True) * (scale / 2)
    exponent = along.detach().amax(dim=-1)
    return Features(of_query, (along - exponent[..., None]).exp(), exponent)
