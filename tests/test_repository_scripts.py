"""The scripts say what to do when something is missing, and keep the torch that is there."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TOOLS = ("sh", "dirname", "basename", "cat", "cksum", "grep", "tail", "sed", "cut", "sleep", "rm", "mkdir", "mktemp")

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell on this machine")


@pytest.fixture
def checkout(tmp_path) -> pathlib.Path:
    """A copy of what the scripts read, with a folder `bin` that is the whole PATH."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def command(place: pathlib.Path, body: str) -> None:
    """Put a small shell program at `place`."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!{shutil.which('sh')}\n{body}\n")
    place.chmod(place.stat().st_mode | stat.S_IXUSR)


def run(checkout: pathlib.Path, script: str, **environment: str) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if k in {"HOME", "TMPDIR", "LANG"}}
    return subprocess.run(
        [checkout / "bin" / "sh", checkout / "scripts" / script],
        env=clean | {"PATH": str(checkout / "bin")} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def python(torch: str, *, venv: str = "exit 1", pip: str = "exit 1") -> str:
    """A stand-in for Python: new enough, with this torch ("none", "old 2.5.1", "kept 2.9.0"), and these answers of -m."""
    return f"""case "$1" in
  -V) echo Python 3.12.9 ;;
  -) cat >/dev/null; echo {torch} ;;
  -m) case "$2" in venv) {venv} ;; pip) echo "$@" >>pip.txt; {pip} ;; esac ;;
esac"""


def test_without_a_python_the_script_says_what_to_install(checkout):
    done = run(checkout, "test")
    assert done.returncode == 2
    assert "no Python 3.10 or newer was found on PATH" in done.stderr
    assert "apt-get install python3" in done.stderr


def test_an_old_python_is_passed_over(checkout):
    too_old = f'[ "$1" = -c ] && exec {sys.executable} -c "import sys; sys.version_info = (3, 9, 20); ${{2#*; }}"'
    command(checkout / "bin" / "python3", too_old)
    assert "no Python 3.10 or newer" in run(checkout, "test").stderr
    command(checkout / "bin" / "python3", too_old.replace("(3, 9, 20)", "(3, 10, 0)"))
    assert "no Python 3.10 or newer" not in run(checkout, "test").stderr


def test_without_the_venv_module_the_script_says_which_package_has_it(checkout):
    command(checkout / "bin" / "python3", python("none", venv="echo no ensurepip; exit 1"))
    done = run(checkout, "demo")
    assert done.returncode == 2
    assert "no ensurepip" in done.stderr
    assert "apt-get install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_without_a_network_the_script_names_the_log_and_the_way_out(checkout):
    failing = python("none", pip="echo 'ERROR: no matching distribution for torch'; exit 1")
    command(checkout / ".venv" / "bin" / "python", failing)
    done = run(checkout, "test")
    assert done.returncode == 2
    assert "ERROR: no matching distribution for torch" in done.stderr
    assert ".venv/install.log" in done.stderr
    assert "HTTPS_PROXY" in done.stderr


def test_without_torch_the_constraints_choose_it(checkout):
    command(checkout / ".venv" / "bin" / "python", python("none"))
    run(checkout, "test")
    assert "-c constraints.txt -e .[test]" in (checkout / "pip.txt").read_text()


def test_a_torch_that_is_there_is_kept(checkout):
    command(checkout / "mine" / "bin" / "python", python("kept 2.9.0"))
    done = run(checkout, "test", VIRTUAL_ENV=str(checkout / "mine"))
    assert "torch 2.9.0 is kept" in done.stderr
    assert "constraints" not in (checkout / "pip.txt").read_text()


@pytest.mark.parametrize(("torch", "shared"), [("kept 2.9.0", True), ("old 2.5.1", False), ("none", False)])
def test_a_new_environment_sees_the_torch_of_the_system_when_it_is_new_enough(checkout, torch, shared):
    command(checkout / "bin" / "python3", python(torch, venv='echo "$@" >venv.txt; exit 1'))
    run(checkout, "test")
    assert ("--system-site-packages" in (checkout / "venv.txt").read_text()) == shared


def test_an_old_torch_is_left_alone_and_the_script_says_how_to_go_on(checkout):
    command(checkout / "mine" / "bin" / "python", python("old 2.5.1"))
    done = run(checkout, "test", VIRTUAL_ENV=str(checkout / "mine"))
    assert done.returncode == 2
    assert "has torch 2.5.1, and regard needs 2.8 or newer" in done.stderr
    assert "deactivate" in done.stderr
    assert not (checkout / "pip.txt").exists()


def test_a_second_run_installs_nothing(checkout):
    command(checkout / ".venv" / "bin" / "python", python("none", pip="exit 0"))
    command(checkout / ".venv" / "bin" / "regard", "exit 0")
    run(checkout, "docs")
    (checkout / "pip.txt").unlink()
    assert run(checkout, "docs").returncode == 0
    assert not (checkout / "pip.txt").exists()


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "scripts").glob("[a-z]*")), ROOT / ".ci" / "run"], ids=lambda p: p.name
)
def test_every_shell_script_says_its_purpose_first_and_parses(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".py", ".txt"} or path.is_dir():
        return
    assert text.splitlines()[text.startswith("#!")].startswith("# ")
    shell = "bash" if "bash" in text.splitlines()[0] else "sh"
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    assert subprocess.run([shell, "-n", path], capture_output=True).returncode == 0
