"""The page of every rule, read from the rule's own file; no rule is imported, so torch is not either."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.checks.rule import FAMILIES
from regard.core.errors import TargetError

CUT = "ATT003"  # compares a module cut among processes: `regard check --nproc` alone runs it
CATALOG = Path(__file__).parent / "catalog"


@dataclass(frozen=True)
class Page:
    """What `regard rule CODE` prints: `doc` is the docstring of the rule."""

    code: str
    name: str
    kinds: tuple[str, ...]
    doc: str
    file: str

    @property
    def title(self) -> str:
        return self.doc.splitlines()[0] if self.doc else self.name

    @property
    def family(self) -> str:
        return FAMILIES.get(self.code[3:4], "running the checks")

    def text(self) -> str:
        """Markdown: a heading, the family, and the docstring."""
        kinds = f" Kinds of fault: {', '.join(self.kinds)}." if self.kinds else ""
        return f"# {self.code} {self.name}\n\nFamily: {self.family}.{kinds}\n\n{self.doc}\n"


OTHER_PAGES = (
    Page(
        "ATT001",
        "waiver_without_reason",
        (),
        "A finding is waived and nobody says why.\n\n"
        "Whoever reads the code later cannot tell a decision from a silenced alarm, so the waiver does not count.\n\n"
        "Bad:\n\n    class Attention(nn.Module):  # regard: ignore[ATT601]\n\n"
        "Good:\n\n    class Attention(nn.Module):  # regard: ignore[ATT601] float32 only, see the export notes",
        "",
    ),
    Page(
        "ATT002",
        "waiver_unused",
        (),
        "A waiver names a rule that passes now, or a rule that does not exist.\n\n"
        "The fault that it excused is gone; left in place it would hide the next one. Delete it. A waiver whose rule was not\n"
        "exercised in this run is left alone.",
        "",
    ),
    Page(
        CUT,
        "sharded_equals_single",
        (),
        "A module that is cut among processes computes something else than in one.\n\n"
        "Runs with `regard check --nproc N` only, in N gloo processes. Every process calls what the declared function makes of\n"
        "the module with the whole input, and gives the whole output or its own consecutive part. Outputs are compared first;\n"
        "then the gradients of the parameters, summed over the processes where each gives a part.\n\n"
        "Usual causes: keys of other processes are not fetched; a mask or positions count from 0 in every process; a collective\n"
        "call without a gradient, or with a wrong one (torch.distributed.nn.functional.all_gather over gloo).\n\n"
        "Bad:\n\n    def cut(module, group):\n        return lambda x: module(shard(x, group))\n\n"
        'Good:\n\n    class Attention(nn.Module):  # regard: design sharded="cut"\n\n'
        "    def cut(module, group):\n        module.attend = sequence_parallel(attention, group)\n"
        "        return lambda x: module(shard(x, group))",
        "",
    ),
)


def pages(folder: Path = CATALOG) -> list[Page]:
    """Every rule of the catalogue and those that stand outside it, by code."""
    found = list(OTHER_PAGES)
    for file in sorted(folder.glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found += [p for d in node.decorator_list if (p := _page(node, d, file, _constants(tree)))]
    return sorted(found, key=lambda page: page.code)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _page(node: ast.FunctionDef, decorator: ast.expr, file: Path, constants: dict[str, ast.expr]) -> Page | None:
    """The page of a function decorated with `@rule("ATT101", kinds=(...))`."""
    if not (isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "rule" and decorator.args):
        return None
    kinds = {k.arg: k.value for k in decorator.keywords}.get("kinds", ast.Tuple([]))
    if isinstance(kinds, ast.Name):  # a constant of the same file; elsewhere the page names no kinds
        kinds = constants.get(kinds.id, ast.Tuple([]))
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    return Page(ast.literal_eval(decorator.args[0]), node.name, tuple(ast.literal_eval(kinds)), doc, str(file))


def page(code: str) -> Page:
    """The page of one rule, by code or name.

    Raises:
        TargetError: there is no such rule.
    """
    every = pages()
    for candidate in every:
        if code.upper() == candidate.code or code == candidate.name:
            return candidate
    raise TargetError(
        f"there is no rule {code!r}; `regard rule` lists the {len(every)} codes from {every[0].code} to {every[-1].code}"
    )


def validated(prefixes: Sequence[str]) -> tuple[str, ...]:
    """Prefixes of codes or names, comma-separated or one by one, each of which begins some rule.

    Raises:
        TargetError: one begins no rule.
    """
    every = pages()
    asked = tuple(part.strip() for prefix in prefixes for part in prefix.split(",") if part.strip())
    for prefix in asked:
        if not any(p.code.startswith(prefix) or p.name.startswith(prefix) for p in every):
            raise TargetError(f"no rule begins with {prefix!r}; `regard rule` lists the {len(every)} codes")
    return asked
