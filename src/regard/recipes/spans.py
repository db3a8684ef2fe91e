"""Answers as spans of tokens: where they stand, contexts joined into one, the best span of scores, and SQuAD's measures.

Axes: B questions, T tokens of the context, Q of the question, F columns of `word_rows`.
Token 0 of a context is [NONE]: the answer of a question that has none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import DataError
from regard.recipes import word_rows
from regard.recipes.data.questions import Question

LONGEST = 30  # tokens of an answer
NONE = 2  # the id of [NONE], the first special token behind padding and unknown


class Passage(NamedTuple):
    """A tokenized question: the words of the context and of the question, first and last token of the answer, where tokens stand."""

    context: Tensor  # (T, F)
    question: Tensor  # (Q, F)
    start: int
    end: int
    pieces: list[tuple[str, int, int]]  # of each token: the text that it is of, and its first and last character + 1

    def text(self, start: int, end: int) -> str:
        """The text from a token to another; of [NONE], or over two contexts: empty."""
        if start == 0 or self.pieces[start][0] is not self.pieces[end][0]:
            return ""
        return self.pieces[start][0][self.pieces[start][1] : self.pieces[end][2]]


def tokenized(tokenizer: Any, one: Question) -> Passage:
    """A question as rows of `word_rows`; its first answer as tokens (0, 0 where there is none).

    Raises:
        DataError: The question has no token.
    """
    found = tokenizer.encode(one.context, add_special_tokens=False)
    asked = tokenizer.encode(one.question, add_special_tokens=False)
    if not asked.ids:
        raise DataError(f"question {one.identity} has no token: {one.question!r}")
    start = end = 0
    if one.answers:
        first, last = one.starts[0], one.starts[0] + len(one.answers[0])
        inside = [i for i, (a, b) in enumerate(found.offsets) if a < last and b > first]
        if inside:
            start, end = inside[0] + 1, inside[-1] + 1
    pieces = [("", 0, 0), *((one.context, a, b) for a, b in found.offsets)]
    context = word_rows.rows([NONE, *found.ids], [text[a:b] for text, a, b in pieces], passage=1)
    question = word_rows.rows(asked.ids, [one.question[a:b] for a, b in asked.offsets])
    context[0, word_rows.PASSAGE] = 0
    return Passage(context, question, start, end, pieces)


def joined(others: list[Passage], right: Passage, place: int, length: int) -> Passage:
    """The right context among others, in that place; others are shortened so that the whole has at most `length` tokens."""
    room = max(0, length - len(right.context)) // max(1, len(others))
    words, pieces, start, end = [right.context[:1]], [("", 0, 0)], 0, 0
    for i, one in enumerate([*others[:place], right, *others[place:]]):
        most = len(one.context) if i == place else min(room + 1, len(one.context))
        if i == place and one.end:
            start, end = one.start + len(pieces) - 1, one.end + len(pieces) - 1
        added = one.context[1:most].clone()
        added[:, word_rows.PASSAGE] = i + 1
        words.append(added)
        pieces += one.pieces[1:most]
    if end >= length:
        start = end = 0
    return Passage(torch.cat(words)[:length], right.question, start, end, pieces[:length])


class SpanScores(nn.Module):
    """(B, T, E) to the score of each span, (B, T, T): of its start, of its end, and of the two together, as attention scores them.

    Spans whose end is before the start, `LONGEST` behind it or in the padding get -1e4.
    """

    def __init__(self, width: int, channels: int = 32):
        super().__init__()
        self.alone, self.start, self.end = nn.Linear(width, 2), nn.Linear(width, channels), nn.Linear(width, channels)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        """x (B, T, E); keep (B, T), True = a token."""
        start, end = self.alone(x).unbind(-1)
        scores = self.start(x) @ self.end(x).transpose(1, 2) / self.start.out_features**0.5
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu().tril(LONGEST - 1)
        allowed = allowed & keep[:, None, :] & keep[:, :, None]
        return (scores + start[:, :, None] + end[:, None, :]).masked_fill(~allowed, -1e4)


def best_spans(scores: Tensor, *, among: int = 5) -> list[tuple[int, int]]:
    """The start and end of each row's answer: of the likeliest spans the one with the largest expected F1, were one of them right.

    Args:
        scores: (B, T, T) scores of spans, [start, end].
        among: How many are looked at; 1: the likeliest is the answer.
    """
    T = scores.shape[2]
    top = scores.flatten(1).topk(min(among, T), dim=1)
    start, end, chance = top.indices // T, top.indices % T, top.values.softmax(1)  # (B, K) each
    common = torch.minimum(end[:, :, None], end[:, None]) - torch.maximum(start[:, :, None], start[:, None]) + 1
    tokens = end - start + 1
    f1 = 2 * common.clamp(min=0) / (tokens[:, :, None] + tokens[:, None])  # (B, K, K)
    best = (f1 * chance[:, None]).sum(2).argmax(1, keepdim=True)
    return list(zip(start.gather(1, best)[:, 0].tolist(), end.gather(1, best)[:, 0].tolist()))


def judged(made: list[str], questions: list[Question]) -> dict[str, float]:
    """SQuAD's exact match and F1 in percent; Chinese is counted by characters. An empty answer is right where there is none."""
    from torchmetrics.functional.text import squad

    predictions, targets = [], []
    for i, (text, one) in enumerate(zip(made, questions)):
        wide = any("\u3040" <= c <= "\u9fff" for c in one.context[:200])
        answers = [_apart(answer) if wide else answer for answer in one.answers or ("",)]
        predictions.append({"prediction_text": _apart(text) if wide else text, "id": str(i)})
        targets.append({"answers": {"text": answers, "answer_start": [0] * len(answers)}, "id": str(i)})
    numbers = squad(predictions, targets)
    return {"f1": float(numbers["f1"]), "exact": float(numbers["exact_match"])}


def _apart(text: str) -> str:
    return " ".join(c for c in text if not c.isspace())
