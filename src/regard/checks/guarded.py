"""Is an argument read only in a branch that this configuration does not take (`if self.is_cross: ...`)? Read from the source of the forward."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def guarded(module: Any, forward: Callable[..., Any], name: str) -> str | None:
    """The setting, as "is_cross=False", that keeps `name` from being read; None where it is read, or never at all."""
    try:
        function = ast.parse(textwrap.dedent(inspect.getsource(forward))).body[0]
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    if not isinstance(function, ast.FunctionDef):
        return None
    walk = _Walk(module, name)
    walk.block(function.body)
    return walk.setting if not walk.read else None


class _Walk:
    """Statements in order: `read` once the name is loaded while it still is the argument; `setting` of a branch left out that loads it."""

    def __init__(self, module: Any, name: str) -> None:
        self.module, self.name = module, name
        self.alive, self.read = True, False
        self.setting: str | None = None

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If):
            self._branch(node)
        elif isinstance(node, ast.For | ast.While | ast.With | ast.Try):
            self._load(node)  # what stands in a loop counts as read wherever it stands
        else:
            self._load(node)
            targets = node.targets if isinstance(node, ast.Assign) else []
            flat = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
            if any(isinstance(t, ast.Name) and t.id == self.name for t in flat):
                self.alive = False

    def _branch(self, node: ast.If) -> None:
        known = self._value(node.test)
        if known is None:
            self._load(node.test)
            before = self.alive
            self.block(node.body)
            after, self.alive = self.alive, before
            self.block(node.orelse)
            self.alive |= after
            return
        taken, other = (node.body, node.orelse) if known else (node.orelse, node.body)
        if self.alive and any(_loads(s, self.name) for s in other):
            self.setting = self.setting or self._said(node.test)
        self.block(taken)

    def _load(self, node: ast.AST) -> None:
        self.read |= self.alive and _loads(node, self.name)

    def _value(self, test: ast.expr) -> bool | None:
        """What a test of a plain boolean attribute gives now; None for any other test."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._value(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.Attribute) and isinstance(test.value, ast.Name) and test.value.id == "self":
            value = getattr(self.module, test.attr, None)
            return value if isinstance(value, bool) else None
        return None

    def _said(self, test: ast.expr) -> str:
        while isinstance(test, ast.UnaryOp):
            test = test.operand
        assert isinstance(test, ast.Attribute)
        return f"{test.attr}={getattr(self.module, test.attr)}"


def _loads(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))
