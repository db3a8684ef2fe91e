"""What words and defaults say of a mask, and the cause that is told where masks, memories and caps meet."""

from __future__ import annotations

import importlib
import pathlib

import pytest

from regard.checks.check import check
from regard.checks.default_masks import default_polarity
from regard.checks.evidence import Evidence

CORPUS = pathlib.Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize(
    ("words", "polarity"),
    [
        ("True for empty slots", "drop"),
        ("1 = absent", "drop"),
        ("False where a seat is vacant", "keep"),
        ("True for a slot that is not empty", None),
        ("True if non-empty", None),
        ("True where the seat is occupied", "keep"),
        ("1 = observed, 0 = absent", "keep"),
    ],
)
def test_words_for_places_that_hold_nothing_say_what_true_means(words, polarity):
    assert Evidence("Layer", f"seat_mask: (batch, seats), {words}", "").polarity("seat_mask")[0] == polarity


@pytest.mark.parametrize(
    ("body", "polarity"),
    [
        ("if m is None:\n  m = x.new_ones(x.shape[:2])", "keep"),
        ("if m is None:\n  m = torch.ones(2, 3, device=x.device).to(x.dtype)[:, None]", "keep"),
        ("m = torch.ones(2, 3).bool() if m is None else m", "keep"),
        ("m = m if m is not None else torch.ones_like(x[..., 0])", "keep"),
        ("n = torch.ones(2, 3) if m is None else m", None),
        ("m = torch.ones(2, 3) if m is None else m.float()", None),
        ("if m is None:\n  m = torch.zeros(2, 3)", None),
        ("if m is None:\n  m = torch.zeros(2, 3, dtype=torch.bool)", "drop"),
        ("if m is None:\n  m = torch.ones(3, 3).tril()", None),
        ("if m is None:\n  m = torch.ones(2, 3)\n  m = (1 - m) * -1e9", None),
        ("if m is not None:\n  m = torch.ones(2, 3)", None),
        ("if m is None:\n  m = torch.ones(2, 3)\nif m is None:\n  m = torch.zeros(2, 3, dtype=torch.bool)", None),
        ("not python", None),
    ],
)
def test_what_is_taken_for_no_mask_says_what_one_means(body, polarity):
    assert default_polarity(body, "m")[0] == polarity


@pytest.mark.parametrize("number", ["649", "650", "651", "652", "653", "654", "655"])
def test_the_cause_is_told(number):
    file = next(CORPUS.glob(f"{number}_*.py"))
    kind = next(line.partition(": ")[2] for line in file.read_text(encoding="utf-8").splitlines() if "Kind:" in line)
    report = check(f"{file}:build")
    assert {f.kind for f in report.findings if f.level == "error"} == {kind}


def declared(number: str, monkeypatch):
    monkeypatch.syspath_prepend(str(CORPUS))
    file = importlib.import_module(next(CORPUS.glob(f"{number}_*.py")).stem)
    report = check(file.build, design=importlib.import_module("declare").design(file.CALL))
    assert report.status == "checked", report.reason
    return {f.kind for f in report.findings if f.level == "error"}


@pytest.mark.parametrize("number", ["654", "677"])
def test_of_two_outputs_as_long_as_each_other_the_one_of_the_declared_query_is_looked_at(number, monkeypatch):
    assert declared(number, monkeypatch) == ({"mask-wrong-source"} if number == "654" else set())


@pytest.mark.parametrize("dtype", ["long", "int64", "torch.int64"])
def test_a_declared_integer_mask_that_hides_as_a_boolean_only_is_told_so(dtype, monkeypatch):
    monkeypatch.syspath_prepend(str(CORPUS))
    file = importlib.import_module(next(CORPUS.glob("651_*.py")).stem)
    monkeypatch.setitem(file.CALL["mask"], "dtype", dtype)
    assert "mask-dtype" in declared("651", monkeypatch)


def test_a_declared_head_width_does_not_blame_the_clip_of_a_pointer(monkeypatch):
    assert declared("680", monkeypatch) == set()
