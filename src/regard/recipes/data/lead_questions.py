"""Questions about the first sections of an encyclopedia: built by patterns, answers are spans of the real text.

The questions are generated, and some are clumsy or wrong; passages and answers are as people wrote them. The passage alone does not
give the answer away: it stands among two others of the same topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from regard.recipes.data.questions import Question

_THING = r"(?P<answer>(?:an?|the|one of the|any) [^.;,(]{3,80}?)(?=[.,;(]| (?:that|which|who|where|whose|in which) )"
_NAME = r"(?P<answer>[A-Z][\w'-]+(?:,? (?:of |the |and |[A-Z])[\w'-]*){0,5})"
PATTERNS: tuple[tuple[str, str], ...] = (  # of the question, and of the text
    ("What is {title}?", rf"^[^.]{{0,120}}? (?:is|are|was|were) {_THING}"),
    ("Where is {title} located?", rf"\b(?:located|situated|found) (?:in|on|at) (?:the )?{_NAME}"),
    ("What is {title} also called?", r"\balso (?:known|referred to|called)(?: to)?(?: as)? (?P<answer>[^.,;()]{3,50}?)(?=[.,;()]| or )"),
    ("What is {title} part of?", r"\bpart of (?P<answer>(?:the |an? )?[^.,;()]{3,60}?)(?=[.,;()]| and | that | which )"),
    ("What does {title} consist of?", r"\bconsists? of (?P<answer>[^.;()]{3,80}?)(?=[.;()])"),
    ("What is {title} used for?", r"\bused (?:for|to) (?P<answer>[^.,;()]{3,70}?)(?=[.,;()])"),
    ("What is {title} known for?", r"\bknown for (?P<answer>(?:his |her |its |their |the )?[^.;()]{3,80}?)(?=[.;()])"),
    ("When did it happen: {title}?", r"\b(?:founded|established|invented|published|released|built|discovered|signed|fought|began) "
     r"(?:\w+ )?in (?P<answer>(?:\w+ )?\d{4})"),
    ("How many are there in {title}?", r"\b(?P<answer>(?:about |over |around )?\d[\d,.]* (?:million |billion )?(?:people|inhabitants|species"
     r"|languages|members|islands|countries))"),
    ("After what is {title} named?", r"\bnamed (?:after|for) (?P<answer>(?:the )?[^.,;()]{3,60}?)(?=[.,;()])"),
    ("What causes {title}?", r"\bcaused by (?P<answer>[^.;()]{3,70}?)(?=[.;()])"),
    ("From what does {title} come?", r"\b(?:derived|comes) from (?P<answer>[^.,;()]{3,60}?)(?=[.,;()])"),
)  # fmt: skip


def build(leads: list[dict[str, Any]]) -> list[Question]:
    """One question for each pattern that a passage has, the title in the question and never in the answer."""
    compiled = [(question, re.compile(pattern)) for question, pattern in PATTERNS]
    found = []
    for row in leads:
        title, context = row["title"], " ".join(row["extract"].split())
        for question, pattern in compiled:
            match = pattern.search(context)
            if match is None or title.lower() in match["answer"].lower():
                continue
            answer = match["answer"].rstrip()
            asked = question.format(title=title)
            found.append(Question(f"{title}/{question}", title, context, asked, (match.start("answer"),), (answer,)))
    return found


def topics(leads: list[dict[str, Any]]) -> Callable[[Question], str]:
    """The topic of a question's article: distractors are taken from the same."""
    known = {row["title"]: row["topic"] for row in leads}
    return lambda one: known[one.title]
