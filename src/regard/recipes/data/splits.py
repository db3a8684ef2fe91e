"""Train, validation and test: as the files say, else by a hash of the content, so that equal samples stay on one side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Generic, NamedTuple, TypeVar

from regard.core.errors import DataError

T = TypeVar("T")
_NAMES = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val",
          "test": "test", "testing": "test", "eval": "test"}  # fmt: skip


class Splits(NamedTuple, Generic[T]):
    """Samples to learn from, to choose by, and to report on."""

    train: list[T]
    val: list[T]
    test: list[T]


def split_of(name: str) -> str | None:
    """The split that a path names: a folder `test/`, or a file `test.csv`, `qamr.dev.json`, `test_2016.en`; None: it does not say."""
    path = PurePosixPath(name)
    words = [*path.parts[:-1], *path.name.replace("_", ".").replace("-", ".").split(".")]
    return next((_NAMES[word.lower()] for word in words if word.lower() in _NAMES), None)


def divide(samples: dict[str | None, list[T]], key: Callable[[T], str], source: str) -> Splits[T]:
    """Complete the splits: what is missing is cut from the training part, a tenth each, by the hash of `key`.

    Args:
        samples: By split; under None, those of which no file says where they belong.
        key: The content of a sample that may occur twice, such as its text.
        source: For messages.

    Raises:
        DataError: Nothing to learn from.
    """
    train = [*samples.get("train", []), *samples.get(None, [])]
    val, test = list(samples.get("val", [])), list(samples.get("test", []))
    if not train:
        raise DataError(f"{source} has no training part: {_counts(samples)}; name a file or folder train")
    place = {id(sample): _tenth(key(sample)) for sample in train}
    if not test:
        test = [sample for sample in train if place[id(sample)] == 0]
        train = [sample for sample in train if place[id(sample)] != 0]
    if not val:
        val = [sample for sample in train if place[id(sample)] == 1]
        train = [sample for sample in train if place[id(sample)] != 1]
    if not (train and val and test):
        raise DataError(
            f"{source} is too small: {len(train)} samples to learn from, {len(val)} for validation, {len(test)} to test"
        )
    return Splits(train, val, test)


def thinned(samples: list[T], most: int | None, key: Callable[[T], str]) -> list[T]:
    """At most so many samples, the same ones each time: those with the smallest hashes."""
    if most is None or len(samples) <= most:
        return samples
    return sorted(samples, key=lambda sample: _hash(key(sample)))[:most]


def _tenth(content: str) -> int:
    return int(_hash(content)[:8], 16) % 10


def _hash(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _counts(samples: dict[str | None, list[T]]) -> str:
    return ", ".join(f"{len(rows)} in {name or 'no split'}" for name, rows in samples.items()) or "nothing was found"


def unknown_labels(known: Iterable[str], seen: Iterable[str], source: str) -> None:
    """Refuse labels that the training part lacks.

    Raises:
        DataError: With the labels, and those that are known.
    """
    known = sorted(set(known))
    strange = sorted(set(seen) - set(known))
    if strange:
        raise DataError(
            f"{source} has the label{'s' if len(strange) > 1 else ''} {', '.join(map(repr, strange[:5]))} outside its "
            f"training part, which knows {', '.join(map(repr, known[:12]))}; repair the labels or the split"
        )
