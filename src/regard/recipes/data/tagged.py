"""Sentences with a tag per token: two columns as CoNLL has them, in BIO, BIOES or BMES; read into BIO.

Also plain part-of-speech tags, which are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError
from regard.recipes.data.archive import each, wrong_layout
from regard.recipes.data.decoding import decode
from regard.recipes.data.splits import Splits, divide, split_of

LONGEST = 200  # characters of a token: a link may have as many, a whole sentence in one cell has more
_EXPECTED = "one token and its tag on each line and an empty line between sentences (.conll, .bmes, .bio or .txt)"
_EXAMPLE = """
Berlin B-LOC
is O
large O
"""
_ENTITY = re.compile(r"[BIMESL]-.+|O")
_NUMBERED = re.compile("(\ufffd\ufffd|.)[0-9]{1,2}")  # Weibo writes the place of a character in its word behind it


class Tagged(NamedTuple):
    """One sentence."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(path: str | Path) -> Splits[Tagged]:
    """Read a file, or a folder or archive of files whose names say their split.

    Raises:
        DataError: Another layout, a line with one column, or a tag of an unknown scheme among entity tags.
    """
    samples: dict[str | None, list[Tagged]] = {}
    single = Path(path).is_file()
    for name, content in each(path, lambda name: name.endswith((".conll", ".bmes", ".bio", ".bioes", ".txt", ".tsv"))):
        samples.setdefault(None if single else split_of(name), []).extend(parse(decode(content, name), name))
    if not any(samples.values()):
        raise wrong_layout(path, _EXPECTED, _EXAMPLE)
    return divide(samples, lambda sentence: " ".join(sentence.tokens), str(path))


def parse(text: str, name: str) -> list[Tagged]:
    """The sentences of one file; the tag is the last column."""
    sentences: list[Tagged] = []
    tokens: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or line.startswith("-DOCSTART-"):
            if tokens:
                sentences.append(Tagged(tuple(tokens), tuple(tags)))
                tokens, tags = [], []
            continue
        if len(cells) < 2 or not cells[-1].strip():
            shown = "\n".join(f"    {row}" for row in _EXAMPLE.strip().splitlines())
            raise DataError(
                f"{name}, line {number}, has one column, {line.strip()[:40]!r}; expected {_EXPECTED}:\n{shown}"
            )
        if len(cells[0]) > LONGEST:
            raise DataError(
                f"{name}, line {number}, has a token of {len(cells[0])} characters, {cells[0][:30]!r}...; the limit is {LONGEST}. "
                "Is the file really in columns?"
            )
        tokens.append(cells[0].strip() or " ")
        tags.append(cells[-1].strip())
    if sentences and all(_NUMBERED.fullmatch(token) for row in sentences for token in row.tokens):
        sentences = [Tagged(tuple(_NUMBERED.sub(r"\1", token) for token in row.tokens), row.tags) for row in sentences]
    return [Tagged(row.tokens, tags) for row, tags in zip(sentences, to_bio([row.tags for row in sentences], name))]


def to_bio(sentences: list[tuple[str, ...]], name: str) -> list[tuple[str, ...]]:
    """Entity tags of any of the usual schemes as BIO; other tags as they are.

    Raises:
        DataError: Most tags are entity tags, and some are not.
    """
    entity = sum(tag[:2] in ("B-", "M-", "I-", "E-", "S-", "L-", "U-") for tags in sentences for tag in tags)
    if not entity:
        return sentences
    strange = {tag for tags in sentences for tag in tags if not _ENTITY.fullmatch(tag) and tag[:2] != "U-"}
    if strange:
        raise DataError(
            f"{name} has the unknown tag{'s' if len(strange) > 1 else ''} {', '.join(map(repr, sorted(strange)[:5]))} among "
            "entity tags; expected O, or a letter of B I M E S L U, a dash and the type, such as B-LOC"
        )
    return [tuple(_bio(tag) for tag in tags) for tags in sentences]


def with_ends(tags: Sequence[str]) -> list[str]:
    """BIO with the last token of each entity marked E, and of one token S: a model then learns both borders. Other tags as they are.

    >>> with_ends(["B-LOC", "I-LOC", "B-LOC", "O"])
    ['B-LOC', 'E-LOC', 'S-LOC', 'O']
    """
    made = []
    for tag, after in zip(tags, [*tags[1:], "O"]):
        goes_on = tag[:2] not in ("B-", "I-") or after == f"I-{tag[2:]}"
        made.append(tag if goes_on else {"B": "S", "I": "E"}[tag[0]] + tag[1:])
    return made


def _bio(tag: str) -> str:
    if tag == "O":
        return tag
    return ("B" if tag[0] in "BSU" else "I") + tag[1:]
