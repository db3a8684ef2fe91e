"""Layers that never ran and that their owner's source does call: under a flag that is off, or in a method of its own.

The owner is the innermost module around a layer that did run; a list or dict of layers goes by its name in the owner.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection

from torch import nn

CONTAINERS = (nn.ModuleList, nn.ModuleDict)


def never_ran(dead: list[str], called: Collection[str]) -> bool:
    """Does every one of these parameters belong to a layer that does not run at all?"""
    owners = {n.rpartition(".")[0] for n in dead}
    return all(o and o not in called for o in owners)


def switched_off(module: nn.Module, dead: list[str], called: Collection[str], *, guarded: bool) -> bool:
    """Is every layer of these parameters called in the source, and did none run? `guarded`: inside an `if` only."""
    return all(_in_source(module, name.split(".")[:-1], called, guarded) for name in dead)


def _in_source(module: nn.Module, path: list[str], called: Collection[str], guarded: bool) -> bool:
    owner = 0  # how many names lead to the module that is asked
    for end in range(1, len(path) + 1):
        part = module.get_submodule(".".join(path[:end]))
        attribute = ".".join(path[: owner + 1])
        if not any(c == attribute or c.startswith(f"{attribute}.") for c in called):
            return _calls(type(module.get_submodule(".".join(path[:owner]))), path[owner], guarded)
        if not isinstance(part, CONTAINERS):
            owner = end
    return False


def _calls(owner: type, name: str, guarded: bool) -> bool:
    """Does a method other than __init__ call self.name, or an entry of it?"""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return False
    methods = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name != "__init__"]
    inside = [n for m in methods for n in ast.walk(m) if not guarded or isinstance(n, ast.If | ast.IfExp)]
    return any(_is_call(n, name) for part in inside for n in ([part] if not guarded else ast.walk(part)))


def _is_call(node: ast.AST, name: str) -> bool:
    """`self.name(...)`, `self.name[i](...)`, or a loop over self.name."""
    if isinstance(node, ast.For | ast.comprehension):
        return any(_is_self(n, name) for n in ast.walk(node.iter))
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    while isinstance(function, ast.Subscript):
        function = function.value
    return _is_self(function, name)


def _is_self(node: ast.AST, name: str) -> bool:
    plain = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return plain and node.value.id == "self" and node.attr == name  # pyright: ignore
