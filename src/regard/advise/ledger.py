"""What is held in memory, by kind, while a step runs; and what was held when it was most."""

from __future__ import annotations

KINDS = ("weights", "optimizer", "cache", "gradients", "activations")


class Ledger:
    """Take and give back bytes; the peak, and its parts, are remembered.

    Attributes:
        held: Bytes by kind, now.
        peak: The largest sum so far.
        at_peak: `held` at that moment.
    """

    def __init__(self) -> None:
        self.held: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.peak = 0
        self.at_peak = dict(self.held)

    def take(self, *sizes: int, kind: str = "activations") -> None:
        """Hold so many bytes more, one after the other."""
        self.held[kind] += sum(sizes)
        total = sum(self.held.values())
        if total > self.peak:
            self.peak, self.at_peak = total, dict(self.held)

    def give(self, *sizes: int, kind: str = "activations") -> None:
        """Hold so many bytes less."""
        self.held[kind] -= sum(sizes)
        assert self.held[kind] >= 0, f"more {kind} given back than taken"
