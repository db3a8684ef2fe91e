"""Grids told by their places, streams treated alike, gates of signals, parts left over, ids that are numbers: what is said of them."""

from __future__ import annotations

import pathlib

import pytest
import torch
from torch import nn

from regard.checks.attempt import reads_ids_as_numbers
from regard.checks.call import Call, Source
from regard.checks.check import check
from regard.checks.layout import Layout
from regard.checks.subject import Subject

CORPUS = pathlib.Path(__file__).parents[1] / "corpus"


def findings(number: str) -> list[tuple[str, str, str | None]]:
    (file,) = CORPUS.glob(f"{number}_*.py")
    report = check(f"{file}:build")
    assert report.status == "checked", report.reason
    return [(f.rule, f.level, f.kind) for f in report.findings]


@pytest.mark.parametrize(
    ("number", "rule", "kind"),
    [
        pytest.param("431", "ATT806", "grid-partition", marks=pytest.mark.slow),
        pytest.param("432", "ATT310", "stream-asymmetry", marks=pytest.mark.slow),
        ("433", "ATT901", "channel-no-squeeze"),
        ("434", "ATT901", "spatial-gate-per-channel"),
        pytest.param("435", "ATT307", "chunk-tail", marks=pytest.mark.slow),
    ],
)
def test_the_error_names_the_fault(number, rule, kind):
    assert findings(number) == [(rule, "error", kind)]


def test_places_counted_from_the_last_token_are_asked_about():
    assert findings("446") == [("ATT102", "question", None)]


class Read(nn.Module):
    """How a layer with a table of places treats what it is given: added as numbers, or looked up, rounded or not."""

    def __init__(self, how):
        super().__init__()
        self.how, self.table, self.norm = how, nn.Embedding(30, 20), nn.LayerNorm(20)

    def forward(self, x):
        if self.how == "numbers":
            return self.norm(x + self.table.weight[: len(x), None])
        return self.norm(self.table(x if self.how == "ids" else x.long()))


@pytest.mark.parametrize(("how", "numbers"), [("numbers", True), ("ids", False), ("rounded", False)])
def test_ids_that_are_computed_with_are_no_ids(how, numbers):
    ids = Source(Layout("BL"), 3, (20,), 1, vocabulary=30)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        subject = Subject(Read(how))
    assert reads_ids_as_numbers(subject, Call({"x": ids}, {"x": "x"})) is numbers
