"""One page with every rule of the checker, made from its docstring and its planted bug.

python docs/make_rules.py            # writes docs/rules.md
python docs/make_rules.py --check    # says whether the page is up to date; exit status 1 when it is not
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import torch

from regard.checks.rule import FAMILIES, Rule, catalog

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rules.md"
HEAD = """# The rules

Made by `python docs/make_rules.py`; `regard rule CODE` prints one of them. Each has a planted bug under `tests/planted/`
that it finds, and a twin that differs in what is shown and passes.
"""


def planted(name: str) -> ModuleType:
    """The file with the planted bug of a rule."""
    spec = importlib.util.spec_from_file_location(f"planted_{name}", ROOT / "tests" / "planted" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its source is found
    spec.loader.exec_module(module)
    return module


def fenced(code: str) -> str:
    """A block that is shown and never run: most examples are fragments."""
    return f"```text\n{textwrap.dedent(code).strip()}\n```"


def prose(doc: str) -> str:
    """A docstring as Markdown: code under "Bad:" and "Good:" becomes blocks, each labelled sentence its own paragraph."""
    out: list[str] = []
    code: list[str] = []
    for line in [*doc.splitlines(), ""]:
        if line.startswith("    ") or (code and not line.strip()):
            code.append(line)
            continue
        if code:
            out += ["", fenced("\n".join(code)), ""]
            code = []
        if re.match(r"(Bad|Good|What goes wrong|Why it matters|References?):", line):
            out.append("")
        out.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def difference(file: ModuleType) -> str:
    """What the planted bug changes: the methods that it overrides beside the twin's, or the lines that differ."""
    with torch.random.fork_rng(devices=[]):
        wrong, right = type(file.wrong()), type(file.right())
    if not issubclass(wrong, right):
        return patch(*(inspect.getsource(cls).split("\n", 1)[1] for cls in (wrong, right)), around=1)
    changed = [
        name for name in vars(wrong) if name in vars(right) and not (name.startswith("__") and name != "__init__")
    ]
    return "\n".join(patch(shown(wrong, name), shown(right, name), around=9) for name in changed)


def patch(wrong: str, right: str, *, around: int) -> str:
    """The lines of `wrong` that go (-) and those of `right` that come (+), with lines around them."""
    lines = difflib.unified_diff(wrong.splitlines(), right.splitlines(), lineterm="", n=around)
    return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))


def shown(cls: type, name: str) -> str:
    """Source of a method, or `name = value` of a class attribute as it is written."""
    value = vars(cls)[name]
    if inspect.isfunction(value):
        return textwrap.dedent(inspect.getsource(value)).rstrip()
    found = re.search(rf"^    {name} = .*$", inspect.getsource(cls), re.MULTILINE)
    assert found is not None
    return found.group(0).strip()


def section(rule: Rule) -> str:
    file = planted(rule.name)
    kinds = f" Kinds of fault: {', '.join(rule.kinds)}." if rule.kinds else ""
    title = (file.__doc__ or "").strip().splitlines()[0]
    bug = f"Planted bug (`tests/planted/{rule.name}.py`; - is wrong, + is right): {title}"
    return f"### {rule.code} {rule.name}\n\n{prose(rule.doc)}\n\n{kinds.strip()}\n\n{bug}\n\n```text\n{difference(file)}\n```\n"


def page() -> str:
    """The whole page."""
    out = [HEAD]
    for number, family in FAMILIES.items():
        out.append(f"## {family[0].upper()}{family[1:]}\n")
        out += [section(r) for r in catalog() if r.code[3] == number]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out))


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        print("docs/rules.md is up to date" if fresh else "docs/rules.md is stale; python docs/make_rules.py writes it")
        return 0 if fresh else 1
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)} ({len(catalog())} rules)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
