"""What a module takes for a mask when it is given none: the author's own way of saying "nothing is hidden", read from the source."""

from __future__ import annotations

import ast
import textwrap

ONES = {"ones", "ones_like", "new_ones"}
ZEROS = {"zeros", "zeros_like", "new_zeros"}
KEEPS_NUMBERS = {
    "to", "bool", "float", "long", "int", "type_as", "unsqueeze", "view", "reshape", "expand", "expand_as", "contiguous",
}  # fmt: skip


def default_polarity(source: str, parameter: str) -> tuple[str | None, str]:
    """("keep" | "drop" | None, the words that say so): `mask = x.new_ones(...)` where none is given says that 1 attends.

    Zeros say nothing unless they are booleans: an additive mask that hides nothing is zero too.
    """
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return None, ""
    given = [v for node in ast.walk(tree) if (v := _default(node, parameter)) is not None]
    kinds = {_filled(v) for v in given}
    if len(kinds) != 1 or (kind := kinds.pop()) is None:
        return None, ""
    said = f"{'1' if kind == 'keep' else 'False'} everywhere when none is given"
    return kind, said


def _default(node: ast.AST, parameter: str) -> ast.expr | None:
    """What the parameter becomes in `if mask is None: mask = ...` (its last value there) or `mask = ... if mask is None else mask`."""
    if isinstance(node, ast.If) and _asks_for_none(node.test, parameter, ast.Is):
        values = [
            s.value
            for s in node.body
            if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == parameter for t in s.targets)
        ]
        return values[-1] if values else None
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
        if not any(isinstance(t, ast.Name) and t.id == parameter for t in node.targets):
            return None
        choice = node.value
        absent, present = choice.body, choice.orelse
        if _asks_for_none(choice.test, parameter, ast.IsNot):
            absent, present = present, absent
        elif not _asks_for_none(choice.test, parameter, ast.Is):
            return None
        return absent if isinstance(present, ast.Name) and present.id == parameter else None
    return None


def _asks_for_none(test: ast.expr, parameter: str, how: type[ast.cmpop]) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == parameter
        and isinstance(test.ops[0], how)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )


def _filled(value: ast.expr) -> str | None:
    """ "keep" for ones, "drop" for boolean zeros, under views and casts; None for all else."""
    text = ast.unparse(value)
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
            continue
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
            return None
        name = value.func.attr
        if name in ONES:
            return "keep"
        if name in ZEROS:
            return "drop" if "bool" in text else None
        if name not in KEEPS_NUMBERS:
            return None
        value = value.func.value
