"""`import regard` is light, every public name is where the table says, and imports go down only."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

import regard

ROOT = pathlib.Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "matplotlib", "transformers")
HELP_CPU_SECONDS = 0.5  # the promise of the README; torch alone takes several times as long


def in_fresh_process(code: str) -> dict:
    """What `code` leaves in `answer`, run by a new interpreter."""
    run = f"import json, sys\nanswer = None\n{code}\nprint(json.dumps(answer))"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def test_import_regard_loads_none_of_the_heavy_packages():
    assert in_fresh_process(f"import regard\nanswer = [n for n in {HEAVY!r} if n in sys.modules]") == []


def test_a_name_that_needs_torch_loads_it_and_a_name_that_does_not_leaves_it_out():
    assert in_fresh_process("import regard\nregard.Report\nanswer = 'torch' in sys.modules") is False
    assert in_fresh_process("import regard\nregard.attention\nanswer = 'torch' in sys.modules") is True


@pytest.mark.skipif(importlib.util.find_spec("regard.cli") is None, reason="the command line is not there yet")
def test_help_answers_within_half_a_second_and_without_torch():
    code = """
import os, resource, runpy
sys.argv = ["regard", "--help"]
try:
    runpy.run_module("regard", run_name="__main__")
except SystemExit as done:
    assert not done.code, done.code
used = resource.getrusage(resource.RUSAGE_SELF)
answer = {"torch": "torch" in sys.modules, "seconds": used.ru_utime + used.ru_stime}
"""
    pytest.importorskip("resource", reason="process CPU time is read with the module resource")
    runs = [in_fresh_process(code) for _ in range(3)]
    assert not any(run["torch"] for run in runs)
    assert min(run["seconds"] for run in runs) < HELP_CPU_SECONDS


@pytest.mark.parametrize("name", sorted(set(regard.__all__) - {"__version__"}))
def test_every_public_name_resolves(name):
    assert getattr(regard, name) is not None


def test_no_module_bears_the_name_of_a_public_function():
    functions = {name for name in regard._HOME if name.islower()}
    modules = {path.stem for path in (ROOT / "src/regard").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not functions & modules


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'atention'; public names: .*attention"):
        regard.atention  # noqa: B018


def test_the_layers_hold():
    pytest.importorskip("importlinter", reason="import-linter is not installed (extra dev)")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
