"""Sentences in two languages: two files of equally many lines, plain or compressed, that differ in one part of their names."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.core.errors import DataError
from regard.recipes.data.archive import each, wrong_layout
from regard.recipes.data.decoding import decode
from regard.recipes.data.splits import Splits, divide, split_of

_EXPECTED = "files train.SOURCE and train.TARGET (also .gz; val and test alike), one sentence a line"
_EXAMPLE = """
train.en    line 1: A dog runs.
train.de    line 1: Ein Hund rennt.
(the same number of lines in both)
"""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def read_pairs(folder: str | Path, source: str, target: str) -> Splits[Pair]:
    """Read a folder or an archive.

    Args:
        folder: Where the files lie; only those with `.source` or `.target` (as a part between dots) in the name are read.
        source, target: The parts of the names, such as "en" and "de".

    Raises:
        DataError: Another layout, or two files of different lengths.
    """
    lines: dict[tuple[str, str], list[str]] = {}  # (name without the language, language) -> lines
    for name, content in each(folder, lambda name: _language(name, source, target) is not None):
        language = _language(name, source, target) or ""
        stem = name.removesuffix(".gz").removesuffix(".txt").removesuffix(f".{language}")
        unpacked = next(iter(each((name, content))))[1] if name.endswith(".gz") else content
        text = decode(unpacked, name)
        lines[stem, language] = (text.removesuffix("\n")).split("\n")
    samples: dict[str | None, list[Pair]] = {}
    for stem in dict.fromkeys(stem for stem, _ in lines):
        left, right = lines.get((stem, source)), lines.get((stem, target))
        if left is None or right is None:
            raise DataError(f"{folder} has {stem} in {source if left else target} only; expected {_EXPECTED}")
        if len(left) != len(right):
            raise DataError(
                f"{stem}.{source} has {len(left)} lines and {stem}.{target} has {len(right)}; line i of one must translate "
                "line i of the other"
            )
        pairs = [Pair(a.strip(), b.strip()) for a, b in zip(left, right) if a.strip() and b.strip()]
        samples.setdefault(split_of(stem), []).extend(pairs)
    if not samples:
        raise wrong_layout(folder, _EXPECTED, _EXAMPLE)
    return divide(samples, lambda pair: pair.source, str(folder))


def _language(name: str, source: str, target: str) -> str | None:
    """Which of the two a name ends in, but for .gz and .txt."""
    parts = PurePosixPath(name.removesuffix(".gz").removesuffix(".txt")).name.split(".")[1:]
    return parts[-1] if parts and parts[-1] in (source, target) else None
