"""The `console` blocks of the documents: run their commands, compare what they print, or write it into the page.

`python scripts/console_blocks.py` brings every page up to date; tests/test_repository_documents.py compares.
"""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("README*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts)])
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(block: str) -> list[tuple[str, str]]:
    """The (command, output) pairs of a block: a line that starts with "$ " is a command, what follows is its output."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@functools.cache  # pages in two languages show the same commands
def printed(command: str) -> str:
    """What a command prints on stdout, at 80 columns and without colour; `regard` is that of this interpreter."""
    arguments = shlex.split(command)
    if arguments[0] == "regard":
        arguments = [sys.executable, "-m", "regard", *arguments[1:]]
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        arguments, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE, text=True, timeout=300, check=False
    )
    lines = done.stdout.strip("\n").splitlines()
    return "\n".join(re.sub(r"\S*/(?=site-packages/)", ".venv/…/", line.rstrip()) for line in lines) + "\n"


def comparable(text: str) -> str:
    """Text with every number as one sign: line numbers, times and last digits differ from day to day and place to place."""
    text = re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "#", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def refreshed(block: str) -> str:
    """The block with what its commands print now."""
    return "".join(f"$ {command}\n{printed(command)}" for command, _ in steps(block))


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = BLOCK.sub(lambda found: f"```console\n{refreshed(found[1])}```", text)
        if comparable(new) != comparable(text):
            page.write_text(new, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
