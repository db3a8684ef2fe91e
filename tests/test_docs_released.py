"""The page of what was found in released code says what its data say, and nothing on it is unconfirmed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("released_page", DOCS / "released_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(page):
    return page.load(DOCS / "released")


def test_every_error_and_warning_was_judged(page, data):
    for results in (data["results"], data["held_out"]):
        assert page.totals({**data, "results": results})["unjudged"] == 0


def test_every_finding_called_right_has_a_script_that_confirmed_it(data):
    for v in data["verdicts"]:
        if v["right"]:
            assert (DOCS / "released" / v["script"]).is_file()
            assert data["confirmed"][v["script"]]["confirmed"], v


def test_more_than_85_of_100_candidates_were_built_called_and_probed(page, data):
    n = page.totals(data)
    assert n["exercised"] >= 0.85 * n["classes"]
    assert n["packages"] >= 12


def test_the_page_is_the_one_that_the_data_make(page, data, tmp_path):
    (tmp_path / "released").mkdir()
    for file in (DOCS / "released").glob("*.json"):
        (tmp_path / "released" / file.name).write_text(file.read_text())
    spec = importlib.util.spec_from_file_location("make_released", DOCS / "make_released.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page.write_pages(tmp_path, module.PACKAGES, module.HELD_OUT)
    assert (tmp_path / "released.md").read_text() == (DOCS / "released.md").read_text()


def test_a_finding_without_a_verdict_is_counted_as_not_judged(page):
    finding = {"rule": "ATT101", "name": "padding_content", "level": "error", "message": "it leaks"}
    one = {"status": "checked", "findings": [finding]}
    data = {
        "results": {"p": {"version": "1", "classes": {"a.py:A": one}}},
        "verdicts": [],
        "confirmed": {},
    }
    assert page.totals(data)["unjudged"] == 1
    data["verdicts"] = json.loads('[{"package": "p", "class": "A", "rule": "ATT101", "right": false, "why": "no"}]')
    assert page.totals(data)["wrong"] == 1
    assert page.totals(data)["cured"] == 0


def test_a_wrong_finding_that_is_asked_or_gone_counts_as_cured(page):
    verdict = {"package": "p", "class": "A", "rule": "ATT101", "right": False, "why": "no"}
    for findings, now in (([], "nothing is said"), ([{"rule": "ATT101", "level": "question"}], "a question")):
        one = {"status": "checked", "findings": findings}
        data = {"results": {"p": {"version": "1", "classes": {"a.py:A": one}}}, "verdicts": [verdict], "confirmed": {}}
        assert [v["now"] for v in page.cured(data)] == [now]
        assert page.totals(data)["wrong"] == 0
