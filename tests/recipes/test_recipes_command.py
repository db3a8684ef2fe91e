"""The words of `regard train` and `regard predict`: what they print, what they refuse, and how they end."""

import json

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.recipes import results


@pytest.fixture
def regard():
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def row(task="lm", data="tinyshakespeare", metric="loss_tenth", value=1.5, seed=0):
    return {"task": task, "data": data, "test": {metric: value}, "seed": seed, "cpu_seconds": 12.0}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1.62], "| lm | tinyshakespeare | loss_tenth | 1.620 | 1.620 | 1 | 12 | reached |"),
        ([1.70], "| lm | tinyshakespeare | loss_tenth | 1.620 | 1.700 | 1 | 12 | fallen short |"),
        ([1.5, 1.7], "| lm | tinyshakespeare | loss_tenth | 1.620 | 1.600 (1.500 to 1.700) | 2 | 12 | reached |"),
    ],
)
def test_marks_are_printed_with_what_was_reached(regard, tmp_path, values, line):
    file = tmp_path / "results.json"
    file.write_text(json.dumps([row(value=value, seed=seed) for seed, value in enumerate(values)]))
    done = regard("train", "--results", "--record", f"={file}")
    assert done.exit_code == 0
    assert line in done.stdout.splitlines()
    assert done.stdout.count("not run yet") == len(results.MARKS) - 1


def test_a_result_is_kept_with_command_seed_versions_and_date_in_the_place_of_the_one_before(tmp_path):
    file = tmp_path / "results.json"
    done = {"regard": "lm", "test": {"loss": 2.0}, "seed": 1, "steps": 5, "cpu_seconds": 1.23, "parameters": 7}
    for loss in (3.0, 2.0):
        results.record(
            file,
            "x",
            done | {"test": {"loss": loss}},
            ["regard", "train", "lm", "--data", "a b", "--out", "o", "--record", "x=f"],
        )
    results.record(file, "x", done | {"seed": 0}, ["regard"])
    rows = json.loads(file.read_text())
    assert [(r["seed"], r["test"]["loss"]) for r in rows] == [(0, 2.0), (1, 2.0)]
    assert rows[1]["command"] == "regard train lm --data 'a b' --record x"
    assert set(rows[1]["versions"]) >= {"python", "torch", "machine"}
    assert len(rows[1]["date"]) == 10


def test_a_file_that_is_missing_or_of_something_else_is_refused(regard, tmp_path):
    done = regard("train", "--results", "--record", f"={tmp_path / 'no.json'}")
    assert done.exit_code == 2
    assert "there is no file" in done.stderr
    (tmp_path / "x.json").write_text("[1]")
    assert (
        "was not written by regard train --record"
        in regard("train", "--results", "--record", f"={tmp_path / 'x.json'}").stderr
    )


def test_without_a_task_the_tasks_are_listed(regard):
    done = regard("train")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "lm",
        "qa",
        "series",
        "tag",
        "text",
        "translate",
        "vision",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "txt"), "there is no task 'txt'; there are lm, qa, series, tag, text, translate, vision"),
        (("train", "text", "--precision", "half"), "--precision 'half' is not one of float32, bfloat16, float16"),
        (("train", "text", "--save", "0"), "--save 0 must be at least 1"),
        (("train", "text", "--data", "no.csv"), "'no.csv' is neither a file or folder nor a data set of text: movies, reviews; or hub:NAME"),
        (("train", "text", "--set", "hads=2"), "--set hads=2: text has no such setting; it has heads=4"),
        (("predict", "nowhere", "x"), "nowhere has no config.json; give the --out folder of a regard train run"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_ends_with_2_and_the_way_out(regard, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = regard(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_file_as_out_folder_is_refused(regard, tmp_path):
    (tmp_path / "file").write_text("x")
    done = regard("train", "lm", "--out", tmp_path / "file")
    assert (done.exit_code, "is a file; give a folder" in done.stderr) == (2, True)


def test_a_run_from_the_command_line_trains_records_and_predicts(regard, tmp_path):
    (tmp_path / "t.txt").write_text("one two three four " * 200)
    settings = [w for s in ("width=16", "layers=1", "heads=2", "context=16", "buckets=50") for w in ("--set", s)]
    file, out = tmp_path / "results.json", tmp_path / "run"
    words = ["--data", tmp_path / "t.txt", "--out", out, "--steps", 3, "--batch", 4, "--record", f"ours={file}"]
    done = regard("train", "lm", *words, *settings)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("test: loss ")
    assert "beside it: xz, loss" in done.stdout
    assert json.loads(file.read_text())[0]["data"] == "ours"
    assert regard("predict", out, "one").stdout.startswith("one")
    page = tmp_path / "page.html"
    assert regard("view", out, "--text", "one two", "--out", page).exit_code == 0
    assert page.stat().st_size > 10_000
