"""Who is told of the calls of `attention()`, whatever backend computes them. Nobody, in ordinary runs.

A backend may cut a call into blocks, pack it or trim it; the kernels that run then say little about the call. A watcher is told
of the call as it was asked, and of what came out. It only looks: what it is given is what would have been computed without it.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from regard.core.call import Call


class Watcher(Protocol):
    def begin(self, call: Call, backend: str) -> None:
        """A call begins; every operator until `end` belongs to it."""

    def end(self, call: Call, backend: str, output: Tensor | None) -> None:
        """It is over; None: it raised."""


WATCHERS: list[Watcher] = []
