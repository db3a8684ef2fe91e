"""Positions written into vectors: rotary into query and key, sinusoidal into the embedding.

Axes: B samples, H heads, T tokens, D channels of a head, E channels of an embedding.
Positions are integers (T,) or (B or 1, T). Angles are computed in float32 or more, never in 16 bits.
Sources: Su et al. 2021, arXiv:2104.09864 (rotary); Vaswani et al. 2017, arXiv:1706.03762, section 3.5 (sinusoidal).
The learned table lives in `regard.nn`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.core.rotary_scaling import Scaling

Pairing = Literal["half", "interleaved"]


@dataclass(frozen=True)
class Rotary:
    """Turn each pair of channels by an angle that grows with position, so that scores depend on distance alone.

    Attributes:
        head_dim: D.
        pairing: "half" pairs channel i with i + width / 2 (Llama, Hugging Face); "interleaved" pairs 2i with 2i + 1 (the
            paper). The same weights need the same pairing; `convert_pairing` translates them.
        width: How many of the first channels turn, even; None = all. The rest pass unchanged.
        base: Pair i turns by position * base ** (-2 * i / width), in radians.
        scaling: How to reach beyond the trained length: `Linear`, `NTK`, `YaRN` or `Llama3`; None = not.

    >>> rotary = Rotary(4, pairing="interleaved")
    >>> rotary(torch.ones(1, 1, 1, 4), torch.tensor([0]))[0, 0]
    tensor([[1., 1., 1., 1.]])
    """

    head_dim: int
    _: KW_ONLY
    pairing: Pairing
    width: int | None = None
    base: float = 10_000.0
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.pairing not in ("half", "interleaved"):
            raise ShapeError(
                f'pairing is "half" (Llama, Hugging Face) or "interleaved" (the paper), got {self.pairing!r}'
            )
        if self.turned % 2 or not 0 < self.turned <= self.head_dim:
            raise ShapeError(f"rotary turns pairs: width must be even, from 2 to {self.head_dim}, got {self.turned}")
        if not self.base > 0:
            raise ShapeError(f"base of the rotary angles must be > 0, got {self.base}")

    @property
    def turned(self) -> int:
        """How many channels turn."""
        return self.head_dim if self.width is None else self.width

    def frequencies(self, *, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> Tensor:
        """(width / 2,): radians per token of each pair, scaled."""
        exponent = torch.arange(0, self.turned, 2, dtype=dtype, device=device) / self.turned
        if self.scaling is None:
            return 1.0 / self.base**exponent
        return self.scaling.frequencies(exponent, self.base)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys.

        Args:
            x: (B, H, T, D).
            positions: integer (T,) or (B or 1, T): where each token stands in its own sequence.

        Returns:
            (B, H, T, D), the dtype of x; each pair keeps its length, times the temperature of `scaling`.

        Raises:
            ShapeError, DtypeError: x is of another width, or positions of another length or not integers.
        """
        if x.shape[-1] != self.head_dim:
            raise ShapeError(f"rotary was made for heads of {self.head_dim} channels, got {x.shape[-1]}")
        cos, sin = self._table(x, positions)
        turned, rest = x[..., : self.turned].to(cos.dtype), x[..., self.turned :]
        if self.pairing == "half":
            first, second = turned.chunk(2, dim=-1)
            out = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        else:
            first, second = turned[..., ::2], turned[..., 1::2]
            out = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)
        out = out.to(x.dtype)
        return out if rest.shape[-1] == 0 else torch.cat([out, rest], dim=-1)

    def _table(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine, (B or 1, 1, T, width / 2)."""
        exact = torch.promote_types(x.dtype, torch.float32)
        placed = _placed(positions, x.shape[-2]).to(device=x.device, dtype=exact)
        angle = placed[:, None, :, None] * self.frequencies(dtype=exact, device=x.device)
        temperature = 1.0 if self.scaling is None else self.scaling.temperature
        return angle.cos() * temperature, angle.sin() * temperature


def convert_pairing(
    weight: Tensor, num_heads: int, *, source: Pairing, target: Pairing, width: int | None = None
) -> Tensor:
    """Reorder the output channels of a query or key projection, so that the other pairing gives the same scores.

    Args:
        weight: (num_heads * D, ...): the weight, or the bias, of a projection.
        num_heads: Query heads for the query projection, key heads for the key projection.
        source, target: The pairing the weights were trained with, and the one they shall be used with.
        width: As in `Rotary`; None = D.
    """
    if num_heads < 1 or weight.shape[0] % num_heads:
        raise ShapeError(f"{weight.shape[0]} output channels do not divide into {num_heads} heads")
    if source == target:
        return weight
    head_dim = weight.shape[0] // num_heads
    width = head_dim if width is None else width
    if width % 2 or not 0 < width <= head_dim:
        raise ShapeError(f"rotary turns pairs: width must be even, from 2 to {head_dim}, got {width}")
    pairs = torch.arange(width).reshape(2, -1).T.flatten()  # 0, w/2, 1, w/2 + 1, ...: where "half" keeps pair i
    order = pairs if source == "half" else pairs.argsort()
    order = torch.cat([order, torch.arange(width, head_dim)]).to(weight.device)
    return weight.unflatten(0, (num_heads, head_dim))[:, order].flatten(0, 1)


@dataclass(frozen=True)
class Sinusoidal:
    """Sines and cosines of the position, at wavelengths from 2 pi to base * 2 pi. Any length, any width.

    Attributes:
        embed_dim: E. Channel 2i is sin(position / base ** (2i / E)), channel 2i + 1 the cosine; an odd E ends with a sine.
        base: Ratio of the longest to the shortest wavelength.
    """

    embed_dim: int
    base: float = 10_000.0

    def __post_init__(self) -> None:
        if self.embed_dim < 1:
            raise ShapeError(f"embed_dim must be at least 1, got {self.embed_dim}")

    def encode(self, positions: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """(T, E) or (B or 1, T, E): the encoding of integer positions (T,) or (B or 1, T)."""
        _check_integer(positions)
        exact = torch.promote_types(dtype, torch.float32)
        even = torch.arange(0, self.embed_dim, 2, dtype=exact, device=positions.device)
        angle = positions[..., None].to(exact) * self.base ** (-even / self.embed_dim)
        pairs = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
        return pairs[..., : self.embed_dim].to(dtype)

    def __call__(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """x + encoding, for x (B, T, E); positions None = 0 .. T - 1."""
        if x.shape[-1] != self.embed_dim:
            raise ShapeError(f"sinusoidal was made for {self.embed_dim} channels, got {x.shape[-1]}")
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        return x + self.encode(_placed(positions, x.shape[-2]).to(x.device), dtype=x.dtype)


def _placed(positions: Tensor, tokens: int) -> Tensor:
    """(B or 1, T), checked."""
    _check_integer(positions)
    if positions.ndim not in (1, 2) or positions.shape[-1] != tokens:
        raise ShapeError(f"positions must be ({tokens},) or (B or 1, {tokens}), got {tuple(positions.shape)}")
    return positions if positions.ndim == 2 else positions[None]


def _check_integer(positions: Tensor) -> None:
    if positions.dtype.is_floating_point or positions.dtype == torch.bool:
        raise DtypeError(
            f"positions must be integers, got {positions.dtype}: in 16 bits positions beyond 256 fall together"
        )
