"""Ctrl-C during training: the first one ends the run after the present step, saved; the second one ends it at once."""

from __future__ import annotations

import signal
from typing import Any


class Stop:
    """`asked` becomes 1 at the first Ctrl-C."""

    def __init__(self) -> None:
        self.asked = 0
        try:
            self._before = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread: then nobody presses Ctrl-C here
            self._before = None

    def _ask(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = 1

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *error: Any) -> None:
        """Give Ctrl-C back to whoever had it."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
