"""The script of a finding shows it in a fresh process, without regard."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from models_with_layers import WIDTH, OverBatch, model
from planted_bugs import FILES, examined

import regard
from regard.checks.rule import catalog

ENDING = "\nimport sys\nassert not [m for m in sys.modules if m.split('.')[0] == 'regard'], 'regard was imported'\n"
NAMES = {rule.code: rule.name for rule in catalog()}
SCRIPTED = {  # code -> what the script prints before the number or the word
    "ATT101": "hidden content changes real outputs by ",
    "ATT103": "item 0 changes by ",
    "ATT104": "a mask that hides nothing changes the output by ",
    "ATT108": "bool and int masks differ by ",
    "ATT201": "earlier outputs change by ",
    "ATT301": "an item changes by ",
    "ATT501": "two eval calls differ by ",
    "ATT502": "two training calls differ by ",
    "ATT503": "train and eval differ by ",
    "ATT601": "finite: ",
    "ATT602": "finite gradients: ",
    "ATT604": "finite: ",
    "ATT605": "seed ",
    "ATT704": "argument unchanged: ",
}
DEFAULT = ("ATT101", "ATT201", "ATT301", "ATT501", "ATT601")


def ran(script: str, folder) -> str:
    """What a script prints in a process of its own that cannot see the folder of tests."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", script + ENDING], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{done.stderr[-600:]}\n{script}"
    return done.stdout.strip()


@pytest.mark.parametrize("code", [c if c in DEFAULT else pytest.param(c, marks=pytest.mark.slow) for c in SCRIPTED])
def test_the_script_shows_the_finding_in_a_fresh_process_without_regard(code, tmp_path):
    name = NAMES[code]
    found = [f for f in examined(name, "wrong", select=[code]).findings if f.rule == code]
    script = found[0].script
    assert script is not None
    assert "regard" not in script.replace(f"planted_{name}", "")
    (tmp_path / f"planted_{name}.py").write_text(FILES[name].read_text(encoding="utf-8"), encoding="utf-8")
    printed = ran(script, tmp_path)
    assert printed.startswith(SCRIPTED[code]), printed
    shown = printed.removeprefix(SCRIPTED[code])
    if code == "ATT605":
        assert shown.endswith(("nan", "inf"))
    elif shown in ("True", "False"):
        assert shown == "False"
    elif code == "ATT502":
        assert float(shown) == 0.0
    else:
        assert not float(shown) < 1e-3


def test_a_script_names_the_dtype_the_seed_and_the_mode():
    script = examined("future_leak", "wrong", select=["ATT201"]).findings[0].script
    lines = script.splitlines()
    assert lines[0] == "import torch"
    assert "model = model.to(torch.float64).eval()" in lines
    assert "torch.manual_seed(0)" in lines
    compile(script, "script", "exec")


def test_a_target_in_a_file_is_loaded_from_that_file(tmp_path, monkeypatch):
    import regard

    source = FILES["batch_independence"].read_text(encoding="utf-8")
    (tmp_path / "net.py").write_text(source.replace("RULES = ", "CODES = "), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    report = regard.check("net.py:Wrong", select=["ATT301"])
    script = report.findings[0].script
    assert "runpy.run_path('net.py')['Wrong']" in script
    assert ran(script, tmp_path).startswith("an item changes by ")


def test_a_rule_without_a_short_form_gives_no_script_and_says_nothing_of_it():
    report = examined("rows_come_back", "wrong", select=["ATT303"])
    assert report.findings[0].script is None
    assert not [note for note in report.notes if "script" in note]


def test_a_class_that_only_exists_here_gives_no_script():
    import regard

    class Local(torch.nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, x):
            y = (x - x.mean(0, keepdim=True)) @ self.weight
            return (y @ x.mT).softmax(-1) @ x

    report = regard.check(Local(torch.randn(6, 6)), select=["ATT301"])
    assert [f.rule for f in report.findings] == ["ATT301"]
    assert report.findings[0].script is None


FACTORY = """import torch
from models_with_layers import WIDTH, OverBatch, model


def made():
    return model("layers.3.norm1", OverBatch, sizes={"normalized_shape": WIDTH})
"""


def test_the_script_of_a_model_of_ids_calls_the_factory_that_made_it(tmp_path, monkeypatch):
    parts = pathlib.Path(__file__).with_name("models_with_layers.py")
    (tmp_path / parts.name).write_text(parts.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "factory.py").write_text(FACTORY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (finding,) = regard.check("factory.py:made", select=["ATT301"]).errors
    assert finding.script is not None
    assert "runpy.run_path('factory.py')['made']()" in finding.script
    printed = ran(finding.script, tmp_path)
    assert float(printed.removeprefix(SCRIPTED["ATT301"])) > 0.01


def test_an_instance_that_its_class_does_not_make_by_itself_gets_no_script():
    (finding,) = regard.check(
        model("layers.3.norm1", OverBatch, sizes={"normalized_shape": WIDTH}), select=["ATT301"]
    ).errors
    assert finding.script is None
