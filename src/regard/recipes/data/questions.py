"""Questions whose answer is a span of a context: SQuAD's JSON, version 1.1 and 2; every span is checked against its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError
from regard.recipes.data.archive import each, wrong_layout
from regard.recipes.data.decoding import decode
from regard.recipes.data.splits import Splits, divide, split_of

_EXPECTED = "SQuAD's JSON, version 1.1 or 2"
_EXAMPLE = """
{"data": [{"title": "Rivers", "paragraphs": [{"context": "The Elbe is 1094 km long.", "qas": [
  {"id": "1", "question": "How long is the Elbe?", "answers": [{"text": "1094 km", "answer_start": 12}]}
]}]}]}
"""


class Question(NamedTuple):
    """One question. `starts` and `answers` say the same spans: context[start : start + len(answer)] == answer; none: unanswerable."""

    identity: str
    title: str
    context: str
    question: str
    starts: tuple[int, ...]
    answers: tuple[str, ...]


def read_questions(path: str | Path, *, repair: bool = False) -> Splits[Question]:
    """Read a .json file, or a folder or archive of them; what no name gives a split is divided by title.

    Args:
        path: Where it lies.
        repair: An answer that is not where the file says is taken at the nearest place where it stands; one that stands nowhere is
            left out. Else both are refused.

    Raises:
        DataError: Another layout, or an answer that is not at its place in the context.
    """
    samples: dict[str | None, list[Question]] = {}
    single = Path(path).is_file()
    for name, content in each(path, lambda name: name.endswith(".json")):
        samples.setdefault(None if single else split_of(name), []).extend(
            parse(decode(content, name), name, repair=repair)
        )
    if not any(samples.values()):
        raise wrong_layout(path, _EXPECTED, _EXAMPLE)
    return divide(samples, lambda one: one.title or one.context, str(path))


def parse(text: str, name: str, *, repair: bool = False) -> list[Question]:
    """The questions of one file. A question that occurs twice on one context becomes one with all its answers."""
    shown = "\n".join(f"    {line}" for line in _EXAMPLE.strip().splitlines())
    try:
        articles = json.loads(text)["data"]
        rows = [
            (str(qa["id"]), str(article.get("title", "")), paragraph["context"], qa)
            for article in articles
            for paragraph in article["paragraphs"]
            for qa in paragraph["qas"]
        ]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{name} is not laid out as {_EXPECTED} ({what}); expected such as\n{shown}") from error
    merged: dict[tuple[str, str], Question] = {}
    for identity, title, context, qa in rows:
        if not str(qa["question"]).strip():
            if not repair:
                raise DataError(f"{name}, question {identity}, is empty; --set repair=true leaves it out")
            continue
        starts, answers = _spans(identity, context, qa, name, repair)
        key = context, str(qa["question"])
        if key in merged:
            had = merged[key]
            starts, answers, identity = (*had.starts, *starts), (*had.answers, *answers), had.identity
        merged[key] = Question(identity, title, context, str(qa["question"]).strip(), starts, answers)
    if repair:  # an answer that was lost is no sign that there is none
        lost = {str(qa["id"]) for _, _, _, qa in rows if qa.get("answers") and not qa.get("is_impossible")}
        merged = {key: one for key, one in merged.items() if one.answers or one.identity not in lost}
    if not merged:
        raise DataError(f"{name} has no question; expected such as\n{shown}")
    return list(merged.values())


def _spans(
    identity: str, context: str, qa: dict[str, Any], name: str, repair: bool
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    starts, answers = [], []
    for answer in [] if qa.get("is_impossible") else qa.get("answers") or []:
        start, text = int(answer["answer_start"]), str(answer["text"])
        if not text:
            continue
        if start < 0 or context[start : start + len(text)] != text:
            places = [i for i in range(len(context)) if context.startswith(text, i)]
            if not repair:
                raise DataError(_misplaced(f"{name}, question {identity}", text, start, context, places))
            if not places:
                continue
            start = min(places, key=lambda place: abs(place - start))
        starts.append(start)
        answers.append(text)
    return tuple(starts), tuple(answers)


def _misplaced(which: str, text: str, start: int, context: str, places: list[int]) -> str:
    there = context[max(start, 0) : max(start, 0) + len(text)][:40]
    where = f"it stands at {places[0]}" if places else "it does not occur in the context"
    return (
        f"{which}: the answer {text[:40]!r} is not at character {start} of its context, where {there!r} is; {where}. "
        "--set repair=true takes the nearest place, and leaves out answers that stand nowhere"
    )
