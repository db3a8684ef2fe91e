"""The corpus of modules in other styles: each is proven wrong or right in plain torch, then given to the checker."""

from __future__ import annotations

import ast
import importlib
import pathlib
import sys

import pytest
import torch

from regard.checks.check import check

CORPUS = pathlib.Path(__file__).parents[1] / "corpus"
FILES = sorted(CORPUS.glob("[0-9]*.py"))
RANK = {"question": 0, "info": 0, "warning": 1, "error": 2}
SCALE = {"scale-embed-dim", "scale-missing", "scale-dk-not-sqrt", "scale-inverted", "scale-twice"}  # asked, undeclared
SAMPLE = {
    "404",
    "417",
    "504",
    "510",
    "522",
    "535",
    "546",
    "565",
    "597",
    "640",
    "645",
    "701",
    "711",
    "720",
    "728",
    "744",
    "786",
    "797",
    "799",
    "835",
    "861",
    "892",
    "934",
    "939",
}

REAL = 1e-3  # a proof of a fault measures at least this
EXACT = 1e-6  # a proof that a module is right measures at most this, in float64 (some keep float32 tables)

MISSED: dict[str, str] = {
    "513": "a warning: many published models share one head_dim x head_dim projection, so it is no error by itself",
    "854": "a warning: a sum over the mean of the keys grows with the length, which sums without a denominator do by design",
    "519": "a question: tiled heads are as good as interleaved ones until weights from elsewhere are loaded",
}  # number -> why the checker does not find it; strict, so that an improvement shows
ALARMED: dict[str, str] = {}  # number -> why the checker speaks up although the module is right


def expectation(file: pathlib.Path) -> dict:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "EXPECTED":  # type: ignore[attr-defined]
            return ast.literal_eval(node.value)
    raise AssertionError(f"{file.name} states no EXPECTED")


def case(file: pathlib.Path, known: dict[str, str]):
    number, marks = file.name[:3], []
    if number not in SAMPLE:
        marks.append(pytest.mark.slow)
    if number in known:
        marks.append(pytest.mark.xfail(reason=known[number], strict=True))
    return pytest.param(file, id=file.stem, marks=marks)


WRONG = [f for f in FILES if expectation(f)["kind"] != "correct"]
RIGHT = [f for f in FILES if expectation(f)["kind"] == "correct"]


@pytest.mark.parametrize("file", [case(f, MISSED) for f in WRONG])
def test_a_wrong_module_is_found_at_its_severity(file):
    said = expectation(file)
    needed = 0 if said["kind"] in SCALE else RANK[said["severity"]]
    report = check(f"{file}:build")
    assert report.status == "checked", report.reason
    assert any(RANK[f.level] >= needed for f in report.findings), [
        (f.rule, f.level, f.message) for f in report.findings
    ]


@pytest.mark.parametrize("file", [case(f, ALARMED) for f in RIGHT])
def test_a_right_module_gets_questions_at_most(file):
    report = check(f"{file}:build")
    assert report.status == "checked", report.reason
    assert not [(f.rule, f.level, f.message) for f in report.findings if f.level != "question"]


@pytest.fixture
def corpus_path(monkeypatch):
    monkeypatch.syspath_prepend(str(CORPUS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(CORPUS)):
            del sys.modules[name]


def measured(file: pathlib.Path) -> float:
    number = int(file.name[:3])
    proofs: dict = {}
    for place in sorted(CORPUS.glob("proofs_*.py")):
        proofs |= importlib.import_module(place.stem).PROOFS
    torch.manual_seed(0)
    module = importlib.import_module(file.stem).build().double().eval()
    return float(proofs[number](module))


@pytest.mark.parametrize("file", [case(f, {}) for f in FILES])
def test_the_expectation_is_proven_without_the_checker(file, corpus_path):
    found = measured(file)
    if expectation(file)["kind"] == "correct":
        assert found < EXACT
    else:
        assert not found < REAL  # NaN counts as a fault


def test_a_case_becomes_a_declaration(corpus_path):
    design = importlib.import_module("declare").design
    said = design(
        {
            "attention": "cross",
            "inputs": {"a": (2, 3, 8), "b": (2, 4, 8)},
            "query_arg": "a",
            "mask": None,
            "window": "3x3",
        }
    )
    assert (said.query, said.inputs["b"], said.mask, said.window) == ("a", (2, 4, 8), None, None)
    grid = design({"attention": "channel", "window": "grid 2x2", "declared_scale": 0.5, "variant": "se"})
    assert (grid.window, grid.scale, grid.gate) == ("grid 2x2", 0.5, "channel")
    mask = design({"mask": {"arg": "m", "polarity": "ignore", "shape": (2, 4), "on": "keys", "dtype": "bool"}})
    assert (mask.mask_argument, mask.mask_polarity) == ("m", "drop")


def test_every_kind_of_the_corpus_has_a_number_of_its_own():
    numbers = [f.name[:3] for f in FILES]
    assert len(numbers) == len(set(numbers))
    assert not (set(MISSED) | set(ALARMED) | SAMPLE) - set(numbers)
