"""A claim and its protocol: what is said, how it is measured, for which seeds, and what decides the verdict.

`run(seed)` gives numbers by name; nothing else is kept of a run. The verdict is a pure function of the numbers of all seeds, so that it
can be tested without a run, and a page can be written from stored numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev

Both = tuple[str, str]  # the same in English and in Chinese
CONFIRMED = "confirmed"
PARTLY = "confirmed in part"
NOT = "not confirmed here"
OPPOSITE = "the opposite was measured"
NOT_RUN = "not run yet"
VERDICTS = {
    CONFIRMED: "证实",
    PARTLY: "部分证实",
    NOT: "此处未能证实",
    OPPOSITE: "测得相反",
    NOT_RUN: "尚未运行",
}
TUTORIALS: Both = ("founding tutorials", "起始教程")
HERE: Both = ("asked here", "本项目提出")


class Spread:
    """One number over the seeds. `format(spread, ".2f")`: the mean, and the standard deviation where the seeds differ.

    >>> f"{Spread([1.0, 2.0, 3.0]):.1f}"
    '2.0 ± 1.0'
    """

    def __init__(self, values: list[float]):
        self.values = values
        self.mean = fmean(values)
        self.deviation = stdev(values) if len(values) > 1 else 0.0
        self.low, self.high = min(values), max(values)

    def __format__(self, how: str) -> str:
        said = format(self.mean, how)
        spread = format(self.deviation, how.replace("+", ""))
        return f"{said} ± {spread}" if spread.strip("0.%e+-") else said


class Found:
    """The numbers of all seeds of a claim: `found["name"]` is the spread of one of them.

    Args:
        rows: By seed, the numbers by name; at least one seed, all with the same names.
    """

    def __init__(self, rows: Mapping[int, Mapping[str, float]]):
        self.rows = {seed: rows[seed] for seed in sorted(rows)}
        names = next(iter(self.rows.values()))
        self.spreads = {name: Spread([row[name] for row in self.rows.values()]) for name in names}

    def __getitem__(self, name: str) -> Spread:
        return self.spreads[name]

    def mean(self, name: str) -> float:
        """Over the seeds."""
        return self[name].mean

    def differences(self, more: str, less: str) -> list[float]:
        """Seed by seed."""
        return [row[more] - row[less] for row in self.rows.values()]


@dataclass(frozen=True)
class Claim:
    """What is put to the test.

    Attributes:
        name: On the command line.
        says: The claim.
        protocol: How it is measured. Numbers that were stored under another protocol are not used.
        decides: What decides the verdict, in words.
        measured: Sentences with `{number:.2f}` for the numbers that `run` gives.
        run: `run(seed)`; called for seeds 0, 1, ...
        verdict: Of the numbers of all seeds: one of VERDICTS.
        seeds: How many.
        long: Takes more than a minute or two for each seed; only with --long.
        needs: Packages, by the names under which they are imported.
        drawn: Label -> number: what the plot shows, each seed a point; the first is the baseline.
        unit: Of the drawn numbers.
        source: Who claims it.
    """

    name: str
    says: Both
    protocol: Both
    decides: Both
    measured: Both
    run: Callable[[int], dict[str, float]]
    verdict: Callable[[Found], str]
    seeds: int = 1
    long: bool = False
    needs: tuple[str, ...] = ()
    drawn: Mapping[str, str] = field(default_factory=dict)
    unit: str = "accuracy, %"
    source: Both = TUTORIALS


def decided(holds: bool, partly: bool = False) -> str:
    """Confirmed, in part, or not."""
    return CONFIRMED if holds else PARTLY if partly else NOT


def more_by(found: Found, more: str, less: str, least: float) -> str:
    """Whether `more` is above `less` by `least` on average and above it for every seed; or the opposite, by the same rule."""
    differences = found.differences(more, less)
    mean = fmean(differences)
    if mean >= least and min(differences) > 0:
        return CONFIRMED
    return OPPOSITE if mean <= -least and max(differences) < 0 else NOT


def equal_within(found: Found, names: list[str], allowed: float) -> str:
    """Whether the means of all are within `allowed` of each other; NOT where they are not."""
    means = [found.mean(name) for name in names]
    return decided(max(means) - min(means) <= allowed)
