"""Every example in the documents is executed: Python blocks run, and commands print what the page says they print."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from sybil.document import Document
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts)])


def words(text: str) -> str:
    """Text as it is compared: numbers are one sign, since the last digits differ between processors; no trailing space."""
    text = re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "#", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def steps(block: str) -> list[tuple[str, str]]:
    """The (command, expected output) of a console block: a line with "$ " is a command, what follows is its output."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def run_console(example) -> str | None:
    """Run the commands of one block; what differs, or None."""
    for command, expected in steps(example.parsed):
        arguments = shlex.split(command, comments=True)
        if arguments[0] == "regard":
            arguments = [sys.executable, "-m", "regard", *arguments[1:]]
        done = subprocess.run(
            arguments,
            cwd=ROOT,
            env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if words(done.stdout) != words(expected):
            return f"{example.path.name}:{example.line}: $ {command}\nprinted\n{done.stdout}\n{done.stderr}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_do_what_it_says(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    document = Document.parse(str(page), PythonCodeBlockParser(), CodeBlockParser("console", run_console))
    for example in document.examples():
        example.evaluate()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_a_page_names_its_language(page):
    fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    known = {"python", "console", "sh", "text", "toml", "mermaid", "yaml", "{toctree}", "{eval-rst}"}
    assert {fence.strip() for fence in fences[::2]} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_of_ours_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_two_readmes_have_the_same_blocks():
    english, chinese = (
        re.findall(r"^```(\w+)$", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name in ("README.md", "README.zh-CN.md")
    )
    assert english == chinese


@pytest.mark.parametrize(
    ("block", "error"),
    [("```python\nassert 1 + 1 == 3\n```\n", AssertionError), ("```console\n$ echo no\nyes\n```\n", Exception)],
)
def test_an_example_that_is_not_true_is_found(tmp_path, block, error):
    page = tmp_path / "page.md"
    page.write_text(block)
    document = Document.parse(str(page), PythonCodeBlockParser(), CodeBlockParser("console", run_console))
    (example,) = document.examples()
    with pytest.raises(error):
        example.evaluate()
