"""Calls of `regard.attention` under observation: one site each, though a backend may have cut the call into many kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from regard.core.call import Call
from regard.core.watchers import WATCHERS
from regard.intercept.site import Site


@dataclass
class Inside:
    """What was seen while one call ran."""

    sites: list[Site] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    softmaxes: int = 0  # how many softmaxes had been seen before it


class WholeCalls:
    """A watcher of `attention()`: holds back what is seen inside a call, and decides at its end what to pass on.

    One kernel on the very tensors of the call is passed on as it is: it says more (which kernel, its row sums). Anything else is
    replaced by one site of the whole call.
    """

    def __init__(
        self, seen_before: Callable[[], int], close: Callable[[Inside, Call | None, str, Tensor | None], None]
    ):
        self.thread = threading.get_ident()
        self.open: list[Inside] = []
        self.seen_before, self.close = seen_before, close

    def __enter__(self) -> WholeCalls:
        WATCHERS.append(self)
        return self

    def __exit__(self, *_) -> None:
        WATCHERS.remove(self)
        self.open.clear()

    @property
    def inside(self) -> Inside | None:
        """The call that runs now, the outermost one."""
        return self.open[0] if self.open else None

    def begin(self, call: Call, backend: str) -> None:
        if threading.get_ident() == self.thread:
            self.open.append(Inside(softmaxes=self.seen_before()))

    def end(self, call: Call, backend: str, output: Tensor | None) -> None:
        if threading.get_ident() != self.thread:
            return
        inside = self.open.pop()
        if not self.open:
            plain = len(inside.sites) == 1 and _same_tensors(inside.sites[0], call)
            self.close(inside, None if plain or output is None else call, backend, output)


def _same_tensors(site: Site, call: Call) -> bool:
    """Whether the kernel ran on all of the call: same shapes of query, key and value, and nothing beside it (softcap, sink)."""
    if site.query is None or site.key is None or site.value is None:
        return False
    pairs = ((site.query, call.query), (site.key, call.key), (site.value, call.value))
    return all(tuple(a.shape) == tuple(b.shape) for a, b in pairs)
