"""What `regard bench` can measure, by name. A suite is loaded when it is asked for; it is a function that gives `Line`s."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from regard.bench.limits import machine, measure, share
from regard.bench.line import Line, chosen
from regard.bench.timing import one_thread
from regard.core.errors import BenchError

SUITES = {
    "attention": "regard.bench.attention",
    "window": "regard.bench.window",
    "decode": "regard.bench.decode",
    "linear": "regard.bench.linear",
    "vision": "regard.bench.vision",
    "statistics": "regard.bench.weight_statistics",
    "capture": "regard.bench.capturing",
    "check": "regard.bench.checking",
    "precision": "regard.bench.precision",
    "plan": "regard.bench.planned",
    "claims": "regard.bench.claims",
}
ROUNDS, QUICK_ROUNDS = 9, 2
Said = Callable[[str], None]


def lines_of(suite: str, *, quick: bool = False, against: Sequence[str] = ()) -> list[Line]:
    """The lines of a suite, those against the named peers only.

    Raises:
        BenchError: No such suite, or none of its lines is against such a peer.
    """
    if suite not in SUITES:
        raise BenchError(f"there is no bench {suite!r}; there are {', '.join(SUITES)}, and all of them are 'all'")
    every: list[Line] = import_module(SUITES[suite]).lines(quick=quick)
    lines = chosen(every, against)
    if not lines:
        known = sorted({line.against for line in every})
        raise BenchError(f"no line of {suite} is against {', '.join(against)}; its peers are {', '.join(known)}")
    return lines


def run(
    suites: Sequence[str],
    *,
    quick: bool = False,
    against: Sequence[str] = (),
    threads: int = 1,
    rounds: int | None = None,
    say: Said = lambda _: None,
) -> Iterator[tuple[str, list[dict]]]:
    """Measure suites, one after the other.

    Args:
        say: Called before each line with what is measured now.

    Yields:
        ("machine", one dict) first: the machine and its limits; then per suite its name and its rows.

    Raises:
        BenchError: As `lines_of`, before anything is measured.
    """
    planned = {suite: lines_of(suite, quick=quick, against=against) for suite in suites}
    with one_thread(threads):
        say("the limits of this machine")
        limits = measure(rounds=3 if quick else 7, size=256 if quick else 1024)
        yield "machine", [{**machine(threads), "limits": limits, "quick": quick}]
        for suite, lines in planned.items():
            rows = []
            for number, line in enumerate(lines, 1):
                say(f"{suite} {number}/{len(lines)}: {line.what}, against {line.against}")
                rows += measured(line, rounds or (QUICK_ROUNDS if quick else ROUNDS), limits)
            yield suite, rows


def measured(line: Line, rounds: int, limits: dict) -> list[dict]:
    """The rows of a line, with the share of the machine's limit. A line that fails is a row that says why; the others go on."""
    try:
        rows = line.rows(rounds)
    except Exception as error:  # a peer of any version, or a process that ran out of memory
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return [{"name": line.what, "against": line.against, "verdict": "failed", "reason": reason}]
    return [{**row, "share": share(row, limits)} if "ratio" in row else row for row in rows]
