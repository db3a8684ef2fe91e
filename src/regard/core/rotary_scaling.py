"""How rotary angles are stretched so that a model reads beyond the length it was trained on.

P pairs of channels; `exponent` is 2i / width of pair i, (P,), and the unscaled frequency base ** -exponent radians per token.
Sources: Chen et al. 2023, arXiv:2306.15595 (linear); Peng et al. 2023, arXiv:2309.00071 (NTK, section 3.1; YaRN, section 3.2
to 3.4); Grattafiori et al. 2024, arXiv:2407.21783 (Llama 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.core.errors import ShapeError


class Scaling(Protocol):
    """A way to stretch rotary angles."""

    @property
    def temperature(self) -> float:
        """Factor of cosine and sine: scores grow by its square."""
        ...

    def frequencies(self, exponent: Tensor, base: float) -> Tensor:
        """(P,): radians per token of each pair."""
        ...


@dataclass(frozen=True)
class Linear:
    """All angles divided by the factor: positions are squeezed into the trained range."""

    factor: float
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _check_factor(self.factor)

    def frequencies(self, exponent: Tensor, base: float) -> Tensor:
        return 1.0 / base**exponent / self.factor


@dataclass(frozen=True)
class NTK:
    """A larger base: the fastest pair is kept, the slowest is slowed down by the factor."""

    factor: float
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _check_factor(self.factor)

    def frequencies(self, exponent: Tensor, base: float) -> Tensor:
        width = 2 * exponent.shape[0]
        if width < 4:
            return 1.0 / base**exponent  # one pair alone: it is the fastest
        return 1.0 / (base * self.factor ** (width / (width - 2))) ** exponent


@dataclass(frozen=True)
class YaRN:
    """Pairs that turn often in the trained length are kept, those that turn less than once are slowed by the factor.

    Attributes:
        factor: How much longer the new length is.
        original_length: The trained length, in tokens.
        fast, slow: Turns in the trained length from which a pair is kept, and below which it is slowed; between, a ramp.
        attention_factor: Factor of cosine and sine; None = 0.1 * ln(factor) + 1.
    """

    factor: float
    original_length: int
    fast: float = 32.0
    slow: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        _check_factor(self.factor)
        if self.original_length < 1 or not self.fast > self.slow > 0:
            raise ShapeError(
                f"YaRN needs original_length >= 1 and fast > slow > 0, got {self.original_length}, {self.fast}, {self.slow}"
            )

    @property
    def temperature(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1 else 0.1 * math.log(self.factor) + 1.0

    def frequencies(self, exponent: Tensor, base: float) -> Tensor:
        pairs = exponent.shape[0]
        low = max(math.floor(self._pair_that_turns(self.fast, pairs, base)), 0)
        high = min(math.ceil(self._pair_that_turns(self.slow, pairs, base)), 2 * pairs - 1)
        index = torch.arange(pairs, dtype=exponent.dtype, device=exponent.device)
        slowed = ((index - low) / max(high - low, 0.001)).clamp(0, 1)
        kept = 1.0 / base**exponent
        return kept / self.factor * slowed + kept * (1 - slowed)

    def _pair_that_turns(self, turns: float, pairs: int, base: float) -> float:
        """The (fractional) pair that makes so many turns in the trained length."""
        return pairs * math.log(self.original_length / (turns * 2 * math.pi)) / math.log(base)


@dataclass(frozen=True)
class Llama3:
    """Long waves are slowed by the factor, short ones kept, and those between blended by their wavelength.

    Attributes:
        factor: How much the long waves are slowed.
        original_length: The trained length, in tokens.
        low, high: A wave longer than original_length / low is slowed; one shorter than original_length / high is kept.
    """

    factor: float = 8.0
    original_length: int = 8192
    low: float = 1.0
    high: float = 4.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _check_factor(self.factor)
        if self.original_length < 1 or not self.high > self.low > 0:
            raise ShapeError(
                f"Llama3 needs original_length >= 1 and high > low > 0, got {self.original_length}, {self.high}, {self.low}"
            )

    def frequencies(self, exponent: Tensor, base: float) -> Tensor:
        kept = 1.0 / base**exponent
        turns = self.original_length * kept / (2 * math.pi)  # in the trained length
        blend = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * blend + kept / self.factor * (1 - blend)


def _check_factor(factor: float) -> None:
    if not factor >= 1:
        raise ShapeError(f"factor of a rotary scaling is how much longer, at least 1, got {factor}")
