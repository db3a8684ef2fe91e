"""Every example in the documents is executed: Python blocks run, and commands print what the page says they print."""

import importlib.util
import pathlib
import re

import pytest
from sybil.document import Document
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

ROOT = pathlib.Path(__file__).parents[1]


def load(path: pathlib.Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


console = load(ROOT / "scripts" / "console_blocks.py")
PAGES = console.PAGES


def run_console(example) -> str | None:
    """Run the commands of one block; what differs, or None."""
    for command, expected in console.steps(example.parsed):
        package = re.search(r" (\w+):", command)
        if package and importlib.util.find_spec(package[1]) is None:
            pytest.skip(f"{package[1]} is not installed; scripts/test installs it")
        now = console.printed(command)
        if console.comparable(now) != console.comparable(expected):
            place = f"{example.path}:{example.line}"
            return (
                f"{place}: $ {command}\nprints now\n{now}\n`python scripts/console_blocks.py` writes it into the pages"
            )
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
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", prose)
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
