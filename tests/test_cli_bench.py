"""`regard bench`: rows on stdout within 80 columns, progress on stderr, JSON that parses, pictures; what is asked wrongly is one sentence."""

import json

import pytest
from typer.testing import CliRunner

from regard.bench.suites import SUITES
from regard.bench.timing import verdict
from regard.cli import app
from regard.views.bench_text import figure, row_lines, suite_text


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Runs the command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_a_run_prints_rows_within_80_columns_and_writes_what_it_measured(bench, tmp_path):
    done = bench("decode", "--quick", "--json", "out.json", "--plot", "out.svg")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "decode: 4 rows:" in done.stdout
    assert "decode 1/4: decode 32/8 heads, 256 keys, float32" in done.stderr
    assert "Quick: small sizes" in done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    rows = found["suites"]["decode"]
    assert {row["against"] for row in rows} == {"torch.cat and enable_gqa", "torch.cat and repeat"}
    for row in rows:
        assert row["ratio"] > 0
        assert 0 < row["share"] < 3  # a cache may be faster than memory
        assert row["verdict"] == ("pass" if row["ratio"] >= row["target"] else "fall-short")
        assert f"{row['ratio']:.2f}x faster, at least {row['target']:g}x" in done.stdout
    assert {"cpu", "cores", "date", "versions", "limits"} <= set(found["machine"])
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.svg"]  # nothing half-written stays


def test_peers_are_chosen_and_curves_are_drawn_with_their_slopes(bench, tmp_path):
    done = bench("statistics", "--quick", "--against", "full", "--plot", "out.png", "--json", "out.json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out.json").read_text())
    assert {row["against"] for row in found["suites"]["statistics"]} == {"full weights"}
    assert [curve["name"] for curve in found["curves"]["statistics"]] == ["statistics", "full weights", "fused"]
    assert "full weights: slope" in done.stdout
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speed"], "there is no bench 'speed'; there are attention, window"),
        (["decode", "--against", "xformers"], "no line of decode is against xformers; its peers are torch.cat"),
        (["decode", "--threads", "0"], "--threads 0 is less than 1"),
        (["decode", "--rounds", "0"], "--rounds 0 is less than 1"),
        (["decode", "--json", "no/out.json"], "there is no folder no for out.json; make it first"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence_before_anything_is_measured(bench, arguments, said):
    done = bench(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"regard: {said}")
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_a_row_that_falls_short_says_so_in_both_directions():
    short = verdict("a", 2.0, 3.0, 1.5, 2.0) | {"against": "b"}
    assert row_lines(short)[1] == "    against b: 1.50x faster, at least 2x  fall-short"
    slow = verdict("a", 4.0, 2.0, 2.0, 1.9, sense="at most") | {"against": "b"}
    assert row_lines(slow)[1] == "    against b: 2.00x its time, at most 1.9x  fall-short"


def test_missing_peers_failures_and_claims_have_their_own_words():
    rows = [
        {"name": "a", "against": "b", "verdict": "missing", "missing": ["local_attention"]},
        {"name": "a", "against": "b", "verdict": "failed", "reason": "ValueError: no"},
        {"name": "67 MB", "against": "documents", "measured": "67.1 MB", "verdict": "confirmed"},
    ]
    text = suite_text("window", rows)
    assert "against b: missing, not installed: local_attention" in text
    assert "against b: failed, ValueError: no" in text
    assert "measured: 67.1 MB" in text
    assert text.endswith("window: 3 rows: 1 missing, 1 failed, 1 confirmed\n")


def test_figures_have_three_digits():
    assert [figure(x) for x in (0.0456, 1.234, 12.34, 123.4, 12_345.6)] == ["0.05", "1.23", "12.3", "123", "12,346"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the peers' own code
@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_runs_with_small_sizes_and_no_line_fails(bench, tmp_path, suite):
    done = bench(suite, "--quick", "--json", "out.json")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = json.loads((tmp_path / "out.json").read_text())["suites"][suite]
    assert rows
    assert not [row for row in rows if row["verdict"] == "failed"]
