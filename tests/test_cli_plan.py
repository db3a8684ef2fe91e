"""`regard plan`: within 80 columns, JSON that parses, and an exit status that says whether something exact fits."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.cli import app

FOUNDING = [
    "--embed-dim",
    "512",
    "--heads",
    "8",
    "--batch",
    "32",
    "--length",
    "512",
    "--dtype",
    "fp16",
    "--memory",
    "8GB",
]


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments])


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--layers", "12", "--train"],
        ["--generate", "--window", "64", "--vocab", "32000"],
        ["--ranks", "64", "--causal"],
    ],
)
def test_a_plan_is_printed_within_80_columns_with_every_way(more):
    done = run(*FOUNDING, *more)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    for name in ("open", "window" if "--window" in more else "fused", "linear"):
        assert f"\n{name} " in done.stdout


def test_json_has_the_numbers_that_the_text_rounds():
    found = json.loads(run(*FOUNDING, "--layers", "12", "--train", "--format", "json").stdout)
    ways = {way["name"]: way for way in found["ways"]}
    assert not ways["open"]["fits"]
    assert ways["fused"]["fits"]
    assert ways["open"]["peak"] == sum(ways["open"]["parts"].values()) > 8e9
    assert found["work"]["layers"] == 12


def test_the_status_is_1_where_nothing_exact_fits():
    done = run(*FOUNDING[:-1], "100MB", "--train")
    assert done.exit_code == 1
    assert "not even one sample fits" not in done.stdout
    assert "checkpointing by layer" in done.stdout
    assert run(*FOUNDING[:-1], "1MB", "--train").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--embed-dim", "512", "--heads", "7"], "embed_dim=512 does not divide into 7 heads"),
        (["--embed-dim", "512", "--heads", "8", "--memory", "lots"], "memory 'lots' is not a size"),
        (["--embed-dim", "-4", "--heads", "8"], "embed_dim=-4 is not a size"),
        (["--embed-dim", "512", "--heads", "8", "--format", "xml"], "format 'xml' is not one of text, json"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"regard: {said}")
    assert not done.stdout


def test_planning_needs_no_torch():
    code = "import sys, regard; regard.plan(512, 8, memory='8GB'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
