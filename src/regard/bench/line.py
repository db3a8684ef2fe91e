"""One line of a bench before it is measured: what, against whom, which packages that needs, and how to measure it.

Nothing is made until a line runs, so that lines can be counted and chosen, and hold no memory.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.bench.timing import Step, row

Pair = tuple[Step, Step]  # ours, the peer's


class Work(NamedTuple):
    """What a step must do at least: operations, bytes that cross memory, and the dtype whose matrix products count."""

    flops: float = 0
    moved: float = 0
    dtype: str = "float32"


WORK = Work()  # not said


@dataclass(frozen=True)
class Line:
    """What can be measured.

    Attributes:
        what, against: As in its rows.
        run: Called with the number of rounds; gives one row or more (`timing.row` says what a row holds).
        needs: Packages that must be there, by the names under which they are imported.
    """

    what: str
    against: str
    run: Callable[[int], list[dict]]
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """The needed packages that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def rows(self, rounds: int) -> list[dict]:
        """Measure, or say what is missing: a row with `verdict` "missing" and no numbers."""
        if absent := self.missing():
            return [{"name": self.what, "against": self.against, "verdict": "missing", "missing": absent}]
        return [{"against": self.against, **made} for made in self.run(rounds)]


def compare(
    what: str,
    against: str,
    make: Callable[[], Pair],
    target: float | None,
    *,
    sense: str = "at least",
    needs: Sequence[str] = (),
    work: Work = WORK,
    rounds: int | None = None,
) -> Line:
    """A line that times two steps in turn; `make` builds them when the line runs.

    Args:
        work: For the share of the machine's limit.
        rounds: For slow lines: so many at most.
    """

    def run(asked: int) -> list[dict]:
        ours, peer = make()
        return [row(what, ours, peer, target, rounds=min(asked, rounds or asked), sense=sense, work=work._asdict())]

    return Line(what, against, run, tuple(needs))


def chosen(lines: Iterable[Line], against: Sequence[str]) -> list[Line]:
    """The lines against one of these peers (a part of its name is enough); all of them when none is named."""
    lines = list(lines)
    return [x for x in lines if not against or any(name.lower() in x.against.lower() for name in against)]
