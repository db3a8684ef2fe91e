"""A CSV file of measurements over time: a column of dates, and one column of numbers per channel."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.core.errors import DataError
from regard.recipes.data.archive import each, wrong_layout
from regard.recipes.data.decoding import decode

DATE_NAMES = ("date", "time", "datetime", "timestamp", "ds")
_EXPECTED = f"a .csv with a header, a first column of dates ({', '.join(DATE_NAMES)}) and columns of numbers"
_EXAMPLE = """
date,load,temperature
2016-07-01 00:00:00,5.827,30.53
2016-07-01 01:00:00,5.693,27.79
"""


class Series(NamedTuple):
    """Measurements: `hours` (T,) since the first row, `values` (T, C) float32, the names of the C channels."""

    hours: np.ndarray
    values: np.ndarray
    channels: list[str]


def read_series(path: str | Path, *, fill: bool = False) -> Series:
    """Read one CSV file.

    Args:
        path: The file, or an archive with one.
        fill: Put the value before in the place of a missing one; else missing values are refused.

    Raises:
        DataError: Another layout, a cell that is no number, a missing value, or dates that do not increase.
    """
    found = [(name, content) for name, content in each(path, lambda name: name.endswith(".csv"))]
    if len(found) != 1:
        raise wrong_layout(path, _EXPECTED, _EXAMPLE)
    return parse(decode(found[0][1], found[0][0]), found[0][0], fill=fill)


def parse(text: str, name: str, *, fill: bool = False) -> Series:
    """The series of one CSV text."""
    rows = list(csv.reader(io.StringIO(text)))
    header = [cell.strip() for cell in rows[0]]
    shown = "\n".join(f"    {line}" for line in _EXAMPLE.strip().splitlines())
    if len(header) < 2 or header[0].lower() not in DATE_NAMES or len(rows) < 3:
        raise DataError(
            f"{name} has the columns {', '.join(header)} and {len(rows) - 1} rows; expected {_EXPECTED}, such as\n{shown}"
        )
    values = np.empty((len(rows) - 1, len(header) - 1), np.float32)
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise DataError(f"{name}, line {number}, has {len(row)} cells and the header {len(header)}")
        for column, cell in enumerate(row[1:]):
            values[number - 2, column] = _number(cell, f"{name}, line {number}, column {header[column + 1]}")
    hours = _hours([row[0] for row in rows[1:]], name)
    return Series(hours, _whole(values, header[1:], name, fill), header[1:])


def _number(cell: str, place: str) -> float:
    if cell.strip().lower() in ("", "na", "nan", "null", "none"):
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        raise DataError(
            f"{place}: {cell!r} is no number; take the column out, or write its categories as numbers"
        ) from None


def _hours(dates: list[str], name: str) -> np.ndarray:
    try:
        times = [datetime.fromisoformat(date.strip().replace("/", "-")) for date in dates]
    except ValueError as error:
        raise DataError(f"{name}: {error}; expected dates such as 2016-07-01 00:00:00") from None
    hours = np.asarray([(time - times[0]).total_seconds() / 3600 for time in times])
    back = np.flatnonzero(np.diff(hours) <= 0)
    if len(back):
        at = int(back[0])
        raise DataError(
            f"{name}, line {at + 3}: {dates[at + 1]} does not come after {dates[at]}; sort the rows and take out what is double"
        )
    return hours


def _whole(values: np.ndarray, channels: list[str], name: str, fill: bool) -> np.ndarray:
    missing = ~np.isfinite(values)
    if not missing.any():
        return values
    if not fill:
        rows, columns = np.nonzero(missing)
        names = ", ".join(dict.fromkeys(channels[c] for c in columns[:5]))
        raise DataError(
            f"{name} has {missing.sum()} values that are missing or not finite, the first on line {rows[0] + 2}; columns: {names}. "
            "Fill them in, or repeat the value before with --set fill=true"
        )
    last = np.where(missing, 0, np.arange(len(values))[:, None])
    last = np.maximum.accumulate(last, axis=0)
    filled = np.take_along_axis(values, last, axis=0)
    if not np.isfinite(filled).all():
        raise DataError(f"{name} begins with missing values, so there is none before to repeat; cut the first rows off")
    return filled
