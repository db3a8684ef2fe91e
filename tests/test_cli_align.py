"""`regard align` and `regard export`: what they print, their exit status, and bad input in one sentence."""

import json

import pytest
from typer.testing import CliRunner

from regard.cli import app

MODELS = """
import torch

def first():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))

def turned():
    model = first()
    model[2].weight.data = model[2].weight.data.T.clone()
    return model

def broken(size):
    return None

def attention():
    torch.manual_seed(0)
    return torch.nn.MultiheadAttention(16, 4, batch_first=True)

nothing = [1]
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


def regard(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_models_that_agree_exit_with_0():
    result = regard("align", "models.py:first", "models.py:first", "--input", "2,8")
    assert result.exit_code == 0
    assert "2 differ" not in result.stdout
    assert "3 steps compared, 0 differ" in result.stdout


def test_models_that_part_exit_with_1_and_name_the_place(project):
    out = project / "found.json"
    result = regard("align", "models.py:first", "models.py:turned", "--input", "2,8", "--out", str(out))
    assert result.exit_code == 1
    assert "first apart in 2 / 2: the weight of 2 is transposed" in result.stdout
    assert json.loads(out.read_text())["cause"]["kind"] == "transposition"


def test_json_goes_to_stdout():
    result = regard("align", "models.py:first", "models.py:turned", "--input", "2,8", "--format", "json")
    said = json.loads(result.stdout)
    assert said["status"] == "apart"
    assert said["parted"]["reference"] == "2"
    assert [row["kind"] for row in said["rows"]] == ["linear", "activation", "linear"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("models.py:first",), "--input is missing: 2,7,32 (normal)"),
        (("models.py:first", "--input", "many"), "--input 'many' is none of 2,7,32 (normal)"),
        (("models.py:first", "--input", "2,0"), "--input '2,0' is none of"),
        (("models.py:first", "--input", "gone.npy"), "--input gone.npy cannot be read"),
        (("models.py:broken", "--input", "2,8"), "models.py:broken could not be called without arguments (TypeError"),
        (("models.py:nothing", "--input", "2,8"), "models.py:nothing could not be called without arguments"),
        (("models.py:first", "--input", "2,8", "--pair", "0"), "--pair '0': give REFERENCE_NAME=CANDIDATE_NAME"),
        (("models.py:first", "--input", "2,8", "--format", "xml"), "--format 'xml' is not one of text, json"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence_and_status_2(arguments, said):
    result = regard("align", "models.py:first", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"regard: {said}")
    assert result.stderr.count("\n") == 1


def test_inputs_are_the_same_for_the_same_seed_and_may_be_named():
    from regard.cli_align import read_inputs

    texts = ["2,3", "int:2,4:9", "keep=bool:2,4"]
    (first, whole), named = read_inputs(texts, 0)
    again = read_inputs(texts, 0)
    assert first.shape == (2, 3)
    assert whole.shape == (2, 4)
    assert int(whole.max()) < 9
    assert set(named) == {"keep"}
    assert (again[0][0] == first).all()
    assert not (read_inputs(texts, 1)[0][0] == first).all()


def test_export_writes_a_program_and_says_what_was_compared(project):
    result = regard("export", "models.py:attention", "--out", "attention.pt2", "--takes", "keep")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("attention.pt2: query, keep -> output\ntorch.export, both sides ran: ")
    assert (project / "attention.pt2").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "a.txt"), "--out a.txt ends with '.txt'; .onnx and .pt2 (torch.export) are written"),
        (("--out", "gone/a.onnx"), "--out gone/a.onnx: there is no folder gone"),
        (("--out", "a.onnx", "--opset", "20"), "opset 20 has no Attention operator"),
        (("--out", "a.pt2", "--opset", "23"), "--opset is for .onnx files"),
        (("--out", "a.pt2", "--takes", "keep", "--takes", "cache"), "takes=cache, keep do not go together"),
        (("--out", "a.pt2", "--takes", "all"), "takes is some of keep, mask, context, cache, got all"),
    ],
)
def test_an_export_that_cannot_be_made_is_one_sentence_and_status_2(arguments, said):
    result = regard("export", "models.py:attention", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"regard: {said}")
    assert result.stderr.count("\n") == 1
