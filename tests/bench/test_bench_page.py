"""The page of results is what docs/make_bench.py writes from the stored results, in two languages."""

import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
STORED = sorted((ROOT / "docs" / "bench").glob("*.json"))


@pytest.fixture(scope="module")
def make_bench():
    spec = importlib.util.spec_from_file_location("make_bench", ROOT / "docs" / "make_bench.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("language", "page"), [("en", "docs/bench.md"), ("zh", "docs/zh/bench.md")])
def test_the_page_is_that_of_the_stored_results(make_bench, language, page):
    results = {
        name: json.loads(path.read_text())
        for name in make_bench.ORDER
        if (path := ROOT / "docs" / "bench" / f"{name}.json").is_file()
    }
    assert (ROOT / page).read_text(encoding="utf-8") == make_bench.page(results, language)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_results_name_machine_and_versions_and_every_verdict_follows_from_its_numbers(path):
    found = json.loads(path.read_text())
    assert {"cpu", "cores", "date", "versions", "limits", "threads"} <= set(found["machine"])
    assert not found["machine"]["quick"]
    rows = [row for made in found["suites"].values() for row in made]
    assert rows
    for row in rows:
        assert row["name"]
        assert row["against"]
        if row["verdict"] not in ("pass", "fall-short") or "ratio" not in row:
            continue
        assert row["ratio"] > 0
        reached = row["ratio"] >= row["target"] if row["sense"] == "at least" else row["ratio"] <= row["target"]
        assert row["verdict"] == ("pass" if reached else "fall-short"), row


def test_a_row_that_falls_short_is_shown_and_a_missing_peer_too(make_bench):
    row = {"name": "a", "against": "b", "ratio": 2.0, "target": 1.9, "sense": "at most", "verdict": "fall-short"}
    absent = {"name": "a", "against": "b", "verdict": "missing", "missing": ["timm"]}
    table = make_bench.table([row, absent], make_bench.WORDS["en"])
    assert "2.00x its time | ≤ 1.9" in table
    assert "fall-short" in table
    assert "missing: not installed: timm" in table
