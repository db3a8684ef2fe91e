"""scripts/bench measures every suite in an environment of its own, with the peers installed without what they ask for."""

import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from regard.bench.suites import SUITES

ROOT = pathlib.Path(__file__).parents[2]
STAND_IN = """case "$1" in
  -c) case "$2" in *local_attention*) exit 1 ;; esac ;;
  -) cat >/dev/null; echo kept 2.13.0 ;;
  -V) echo Python 3.12.9 ;;
  *) echo "$@" >>calls.txt ;;
esac"""

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell on this machine")


@pytest.fixture
def calls(tmp_path):
    """Runs the script in a copy of what it reads, with a stand-in for Python; gives the commands that Python was called with."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    place = tmp_path / ".venv-bench" / "bin" / "python"
    place.parent.mkdir(parents=True)
    place.write_text(f"#!{shutil.which('sh')}\n{STAND_IN}\n")
    place.chmod(place.stat().st_mode | stat.S_IXUSR)

    def run(*arguments, **environment):
        clean = {key: value for key, value in os.environ.items() if key in {"HOME", "PATH", "TMPDIR"}}
        script = ["sh", str(tmp_path / "scripts" / "bench"), *arguments]
        done = subprocess.run(script, env=clean | environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "calls.txt").read_text().splitlines()

    return run


def test_all_suites_are_measured_and_the_page_is_written(calls):
    made = calls()
    installed = [line for line in made if line.startswith("-m pip install")]
    assert "-e .[all]" in installed[0]
    assert "--no-deps local-attention==" in installed[1]
    measured = [line.split() for line in made if line.startswith("-m regard bench")]
    assert {line[3] for line in measured} == set(SUITES)
    assert all(line[4:6] == ["--json", f"docs/bench/{line[3]}.json"] for line in measured)
    assert made[-1] == "docs/make_bench.py"


def test_named_suites_are_measured_alone_and_a_quick_run_writes_nothing(calls):
    assert [line for line in calls("decode", REGARD_BENCH_QUICK="1") if "regard bench" in line] == [
        "-m regard bench decode --quick"
    ]
