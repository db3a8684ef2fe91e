"""What a backend is: a name, a refusal with its reason, the repairs it makes, and the computation.

`attention()` takes care of the edges for all of them, before and after `run`: keys and values that are not finite are
replaced where a mask hides anything (and the rows that see them made NaN), so a backend may multiply by zero. One that
goes through the keys a part at a time may replace them itself, and so hold no copy of all.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from regard.core.call import Call


class Backend(Protocol):
    """One way to compute attention. All methods read sizes, dtypes and structure; none reads a value."""

    name: str
    replaces: bool  # takes keys and values that are not finite for 0 by itself, where a mask hides anything

    def refuses(self, call: Call) -> str | None:
        """Why this backend cannot compute the call, with the way out; None when it can."""
        ...

    def slower(self, call: Call) -> str | None:
        """Why another backend, further down the list, is the better choice for a call that this one can compute."""
        ...

    def repairs(self, call: Call) -> list[str]:
        """What it changes in form, not in value, so that its kernel takes the call."""
        ...

    def run(self, call: Call) -> Tensor:
        """(B, H, T, Dv), the dtype of query. A row that sees no key is 0 and has gradient 0."""
        ...
