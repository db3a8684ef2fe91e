"""A rule: one relation that right attention code fulfils. Each file of `catalog/` holds one; the folder is the list."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from regard.core.errors import DesignError

FAMILIES = {
    "1": "masks and padding", "2": "causality and cache", "3": "axes, heads, layout", "4": "scale and softmax", "5": "modes and paths",
    "6": "numerics", "7": "gradients and parameters", "8": "positions and windows", "9": "vision gates",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """A relation with its code, the kinds of fault that it sees, and the page that `regard rule CODE` prints."""

    code: str
    name: str
    kinds: tuple[str, ...]
    function: Callable[..., Any]

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def title(self) -> str:
        return self.doc.splitlines()[0]

    @property
    def family(self) -> str:
        return FAMILIES[self.code[3]]

    @property
    def file(self) -> str:
        return inspect.getsourcefile(self.function) or ""

    def page(self) -> str:
        """Markdown: the docstring under a heading."""
        kinds = ", ".join(self.kinds) or "none by itself"
        return f"# {self.code} {self.name}\n\nFamily: {self.family}. Kinds of fault: {kinds}.\n\n{self.doc}\n"


_rules: dict[str, Rule] = {}


def rule(code: str, *, kinds: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function `(case) -> Verdict | list[Verdict] | None` as the rule `code`, under its own name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _rules[code] = Rule(code, function.__name__, kinds, function)
        return function

    return register


def catalog() -> list[Rule]:
    """Every rule, by code."""
    package = importlib.import_module("regard.checks.catalog")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"regard.checks.catalog.{module.name}")
    return [_rules[code] for code in sorted(_rules)]


def selected(select: Iterable[str] | None, ignore: Iterable[str] | None) -> list[Rule]:
    """The rules whose code or name begins with one of `select` and with none of `ignore`.

    Raises:
        DesignError: a prefix matches no rule.
    """
    rules = catalog()
    for prefix in [*(select or ()), *(ignore or ())]:
        if not any(r.code.startswith(prefix) or r.name.startswith(prefix) for r in rules):
            raise DesignError(
                f"no rule begins with {prefix!r}; `regard rule` lists the {len(rules)} rules from {rules[0].code} to {rules[-1].code}"
            )
    chosen = [r for r in rules if not select or any(r.code.startswith(s) or r.name.startswith(s) for s in select)]
    return [r for r in chosen if not any(r.code.startswith(i) or r.name.startswith(i) for i in ignore or ())]
