"""Texts with one label each: folders of .txt files as aclImdb has them, CSV or TSV with a header, JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from regard.core.errors import DataError
from regard.recipes.data.archive import each, wrong_layout
from regard.recipes.data.decoding import decode
from regard.recipes.data.splits import Splits, divide, split_of, unknown_labels

TEXT_NAMES = ("text", "sentence", "review", "content", "comment", "document")
LABEL_NAMES = ("label", "class", "sentiment", "category", "target", "topic")
_EXPECTED = "folders train/LABEL/*.txt and test/LABEL/*.txt, or .csv, .tsv or .jsonl with the columns text and label"
_EXAMPLE = """
text,label
"A film that stays with you.",positive
"Two hours I want back.",negative
"""


class Labelled(NamedTuple):
    """One sample."""

    text: str
    label: str


def read_labelled(path: str | Path) -> Splits[Labelled]:
    """Read a folder, an archive or a file.

    Splits come from names (`train/`, `test.csv`); what no name says is cut from the rest by a hash of the text. A folder named
    `unsup` (aclImdb's unlabelled part) is passed over. Texts that occur with two different labels in the training part are left out.

    Raises:
        DataError: Another layout, an empty file or text, a row without a label, or a label that only the test part has.
    """
    samples: dict[str | None, list[Labelled]] = {}
    for name, content in each(path, _is_ours):
        rows = _rows(name, content)
        samples.setdefault(split_of(name), []).extend(rows)
    if not any(samples.values()):
        raise wrong_layout(path, _EXPECTED, _EXAMPLE)
    return finish(samples, str(path))


def finish(samples: dict[str | None, list[Labelled]], source: str) -> Splits[Labelled]:
    """Splits without texts of two labels, and without labels that were never learned."""
    for split in ("train", None):
        if split in samples:
            samples[split] = _consistent(samples[split])
    splits = divide(samples, lambda sample: sample.text, source)
    unknown_labels((s.label for s in splits.train), (s.label for s in [*splits.val, *splits.test]), source)
    if len({s.label for s in splits.train}) < 2:
        raise DataError(
            f"{source} has one label only, {splits.train[0].label!r}; a classifier needs two. {_EXPECTED[0].upper()}{_EXPECTED[1:]}"
        )
    return splits


def from_records(rows: Iterable[dict[str, Any]], source: str) -> list[Labelled]:
    """Samples out of mappings, such as the lines of a CSV file or the rows of a hub's data set."""
    found, text, label = [], None, None
    for number, row in enumerate(rows, 1):
        if text is None or label is None:
            names = {str(name).strip().lower(): name for name in row if name is not None}
            text = next((names[name] for name in TEXT_NAMES if name in names), None)
            label = next((names[name] for name in LABEL_NAMES if name in names), None)
            if text is None or label is None:
                shown = "\n".join(f"    {line}" for line in _EXAMPLE.strip().splitlines())
                raise DataError(
                    f"{source} has the columns {', '.join(map(str, row))}; expected one of {', '.join(TEXT_NAMES)} and one of "
                    f"{', '.join(LABEL_NAMES)}, such as\n{shown}"
                )
        if row.get(label) in (None, ""):
            raise DataError(f"{source}, row {number}, has no {label}; fill it in or take the row out")
        if not str(row.get(text) or "").strip():
            raise DataError(f"{source}, row {number}, has an empty {text}; take the row out")
        found.append(Labelled(str(row[text]).strip(), str(row[label]).strip()))
    if not found:
        raise DataError(f"{source} has a header and no rows")
    return found


def _is_ours(name: str) -> bool:
    path = PurePosixPath(name)
    if path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
        return True
    return path.suffix == ".txt" and len(path.parts) > 1 and path.parts[-2] != "unsup" and not _names_a_split(path)


def _names_a_split(path: PurePosixPath) -> bool:
    """aclImdb/train/urls_pos.txt: a list that lies beside the label folders."""
    return split_of(path.parts[-2] + "/x") is not None or (len(path.parts) == 2 and path.stem.lower() == "readme")


def _rows(name: str, content: bytes) -> list[Labelled]:
    if name.endswith(".txt"):
        return [Labelled(" ".join(decode(content, name).split()), PurePosixPath(name).parts[-2])]
    text = decode(content, name)
    return from_records(_json_lines(text, name) if name.endswith(".jsonl") else _table(text, name), name)


def _table(text: str, name: str) -> Iterator[dict[str, Any]]:
    delimiter = "\t" if name.endswith(".tsv") else ","
    csv.field_size_limit(1 << 30)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    for row in reader:
        if None in row:
            raise DataError(
                f"{name}, line {reader.line_num}, has more cells than the header; put texts that hold a "
                f"{'tab' if delimiter == chr(9) else 'comma'} into double quotes"
            )
        yield row


def _json_lines(text: str, name: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{name}, line {number}, is not JSON: {error.msg}") from error
            if not isinstance(row, dict):
                raise DataError(f'{name}, line {number}, is not an object such as {{"text": "...", "label": "..."}}')
            yield row


def _consistent(rows: list[Labelled]) -> list[Labelled]:
    """Each text once, and none that carries two labels: copies would stand on both sides of a split."""
    labels: dict[str, set[str]] = {}
    for row in rows:
        labels.setdefault(row.text, set()).add(row.label)
    return [Labelled(text, next(iter(found))) for text, found in labels.items() if len(found) == 1]
