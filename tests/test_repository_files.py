"""What every tracked file must keep: no path of the machine it was written on, no forgotten stub, a first line that says the idea."""

import ast
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
HOME = re.compile(r"(?<![\w.])/(?:work|farm|root|home|Users|tmp/helpers)/(?!somebody/)[\w.-]")  # somebody: an example
TEXT = {".py", ".md", ".sh", ".toml", ".txt", ".yml", ".json", ".js", ".css", ".html", ".ipynb", ""}
STUB = re.compile("|".join(("raise NotImplemented" + "Error", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b")))


def tracked() -> list[pathlib.Path]:
    try:
        listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so the tracked files are not known")
    return [path for name in listing.stdout.splitlines() if (path := ROOT / name).is_file()]


def lines_that_match(pattern: re.Pattern, text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def test_no_tracked_file_names_a_path_of_somebodys_machine():
    found = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix in TEXT and (lines := lines_that_match(HOME, path.read_text(encoding="utf-8")))
    }
    assert not found


@pytest.mark.parametrize("text", ["see /" + "work/main", "'/" + "home/ann/x.py'"])
def test_the_search_for_paths_finds_them(text):
    assert lines_that_match(HOME, text) == [1]


def test_the_source_has_no_stub():
    found = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / "src").rglob("*.py")
        if (lines := lines_that_match(STUB, path.read_text(encoding="utf-8")))
    }
    assert not found


def test_every_source_file_starts_with_its_idea():
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if (text := path.read_text(encoding="utf-8")).strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert not silent


def test_no_file_is_named_for_nothing():
    names = {path.name for path in (ROOT / "src").rglob("*.py")}
    assert not names & {"utils.py", "common.py", "base.py", "helpers.py"}


def test_no_tracked_file_but_the_font_is_large():
    large = [path.relative_to(ROOT).as_posix() for path in tracked() if path.stat().st_size > 1_000_000]
    assert not [name for name in large if not name.endswith(".ttf")]
