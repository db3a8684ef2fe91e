"""A method that has to be called before the first forward: `setup_caches(max_batch_size, max_seq_length)` and its like.

It is found in the source: it gives a value to an attribute that is None so far, or that is missing, and that a forward reads
without asking.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from torch import nn

from regard.checks.roles import SIZES, constructor_role
from regard.checks.subject import untouched_globals

NAMES = re.compile(r"(setup|set_up|init|initiali[sz]e|make|allocate|create|build|prepare|reset)_?\w+")


def with_first_call(made: Any, seed: int) -> Any:
    """A copy on which the method was called that its forward needs; None where there is none, or it does not run."""
    if not isinstance(made, nn.Module):
        return None
    for name, method in inspect.getmembers(type(made), inspect.isfunction):
        given = _sizes(method) if NAMES.fullmatch(name) else None
        if given is None or not _needed(made, _assigned(method)):
            continue
        module = copy.deepcopy(made)
        try:
            with untouched_globals(seed):
                getattr(module, name)(**given)
        except Exception:  # it wants something else first
            continue
        return module
    return None


def _sizes(method: Callable[..., Any]) -> dict[str, Any] | None:
    """What its required parameters get by their roles; None where a name says nothing, or there is none."""
    required = [p for p in list(inspect.signature(method).parameters.values())[1:] if p.default is p.empty]
    required = [p for p in required if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    roles = {p.name: constructor_role(p.name) for p in required}
    return {n: SIZES[r] for n, r in roles.items() if r is not None} if roles and None not in roles.values() else None


def _tree(function: Callable[..., Any]) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return ast.Module(body=[], type_ignores=[])


def _assigned(method: Callable[..., Any]) -> set[str]:
    """Names of attributes and buffers that a method gives a value."""
    found: set[str] = set()
    for node in ast.walk(_tree(method)):
        if isinstance(node, ast.Assign):
            found |= {t.attr for t in node.targets if isinstance(t, ast.Attribute)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register_buffer":
            found |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return found


def _needed(made: nn.Module, assigned: set[str]) -> bool:
    """Does the forward of any part read one of these attributes, unset so far, without a branch for None?"""
    for part in made.modules():
        unset = {a for a in assigned if getattr(part, a, None) is None}
        if unset and unset & _read(type(part).forward):
            return True
    return False


def _read(forward: Callable[..., Any]) -> set[str]:
    """Attributes of self that a forward reads, but for those that an `if` tests."""
    tree = _tree(forward)
    tests = [n.test for n in ast.walk(tree) if isinstance(n, (ast.If, ast.IfExp, ast.While))]
    asked = {a for test in tests for a in _own(test)}
    return _own(tree) - asked


def _own(tree: ast.AST) -> set[str]:
    return {
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
    }
