"""Which tag may follow which: an entity that began goes on to its end, and only one that began goes on.

Axes: K tags, named O, B-TYPE (begins), I-TYPE (inside), E-TYPE (ends), S-TYPE (of one token), as `tagged.with_ends` names them.
A CRF learns this slowly: after 1,200 steps on resumes what cannot be cost 0.35 more than what can. So it is told where tags are chosen; told in
training too, it was worse (docs/recipes.md).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch

NEVER = -10_000.0  # a score that no sentence makes up for
Pair = tuple[str | None, str | None]


def may_follow(before: str | None, after: str | None) -> bool:
    """Whether a tag may stand behind another one; None: the beginning or the end of the sentence.

    >>> may_follow("B-PER", "E-PER"), may_follow("B-PER", "E-LOC"), may_follow(None, "I-PER"), may_follow("O", None)
    (True, False, False, True)
    """
    opened = before[2:] if before is not None and before[:2] in ("B-", "I-") else None
    goes_on = after[2:] if after is not None and after[:2] in ("I-", "E-") else None
    return opened == goes_on


def torn(sentences: Iterable[Sequence[str]]) -> list[Pair]:
    """The pairs that sentences have all the same, in order: those of a scheme without B, or of a piece that was cut in an entity."""
    pairs = {pair for row in sentences for pair in zip([None, *row], [*row, None])}
    return sorted((pair for pair in pairs if not may_follow(*pair)), key=str)


@torch.no_grad()
def told(crf: Any, tags: Sequence[str], allowed: Iterable[Sequence[str | None]]) -> Any:
    """A copy of a CRF that never decodes what cannot follow.

    Args:
        crf: With `start_transitions` (K,), `transitions` (K, K) from row to column, and `end_transitions` (K,).
        tags: Their names, in the order of the scores.
        allowed: Pairs that may follow all the same.
    """
    made, also = copy.deepcopy(crf), {tuple(pair) for pair in allowed}
    for scores, rows, columns in (
        (made.start_transitions[None], [None], tags),
        (made.transitions, tags, tags),
        (made.end_transitions[:, None], tags, [None]),
    ):
        cannot = [[not may_follow(a, b) and (a, b) not in also for b in columns] for a in rows]
        scores.masked_fill_(torch.tensor(cannot, device=scores.device), NEVER)
    return made
