"""A sequence cut into chunks of equal length, and put together again, also while exporting with a free length.

Axes: B samples, T tokens, n chunks of C tokens, N channels.
An exported graph may not depend on whether C divides T, nor on whether there is one chunk; so while exporting tokens are
looked up one by one, and there are always at least three chunks, the last of them empty.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def size_of(tokens: int, most: int) -> int:
    """C: `most`, or all tokens if they are fewer and known."""
    return most if torch.compiler.is_compiling() else min(most, max(tokens, 1))


def count_of(tokens: int, C: int) -> int:
    """n: how many chunks hold so many tokens."""
    return tokens // C + 3 if torch.compiler.is_exporting() else (tokens + C - 1) // C


def split(x: Tensor, n: int, C: int) -> Tensor:
    """(B, heads, T, N) to (B, heads, n, C, N); zeros (False) behind the last token."""
    T = x.shape[2]
    if torch.compiler.is_exporting():
        behind = torch.arange(n * C, device=x.device).reshape(n, C)[..., None] >= T
        return repeat_last(x, n, C).masked_fill(behind, 0)
    x = x if not torch.compiler.is_compiling() and n * C == T else pad(x, (0, 0, 0, n * C - T))
    return x.reshape(x.shape[0], x.shape[1], n, C, x.shape[3])


def repeat_last(x: Tensor, n: int, C: int) -> Tensor:
    """(B, heads, T, ...) to (B, heads, n, C, ...); the last token again behind it."""
    return x[:, :, torch.arange(n * C, device=x.device).clamp(max=x.shape[2] - 1).reshape(n, C)]


def joined(x: Tensor, tokens: int) -> Tensor:
    """(B, heads, n, C, N) to (B, heads, T, N)."""
    if torch.compiler.is_exporting():
        token = torch.arange(tokens, device=x.device)
        return x[:, :, token // x.shape[3], token % x.shape[3]]
    return x.flatten(2, 3)[:, :, :tokens]
