"""Generic mutation operators on the syntax tree: each makes one small, plausible mistake in a source text.

A mutant is named by its line and what was changed, so that a survivor can be read without running anything.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

SWAPPED_CALLS = {
    "triu": "tril",
    "tril": "triu",
    "ones_like": "zeros_like",
    "zeros_like": "ones_like",
    "amax": "amin",
    "all": "any",
    "any": "all",
}
SWAPPED_BINARY = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SWAPPED_COMPARE = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
SYMMETRIC = (
    "isinstance",
    "getattr",
    "max",
    "min",
    "maximum",
    "minimum",
    "equal",
    "transpose",
    "swapaxes",
)  # same or loud
MOVES = ("transpose", "mT", "swapaxes", "contiguous", "movedim", "permute")


@dataclass(frozen=True)
class Mutant:
    """One changed source text. `line` counts in the original file."""

    line: int
    operator: str
    what: str
    original: str
    node: int
    change: int
    statement: tuple[int, int]  # first and last line of the statement around it

    @property
    def source(self) -> str:
        """The text of the whole mutated file."""
        tree = ast.parse(self.original)
        target = list(_walk(tree))[self.node]
        new = list(_changes(target))[self.change][1](copy.deepcopy(target))
        return ast.unparse(ast.fix_missing_locations(_Replace(target, new).visit(tree)))


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a file; annotations, docstrings, raised errors and their conditions are left alone."""
    tree = ast.parse(source)
    for index, node in enumerate(_walk(tree)):
        for number, (operator, change) in enumerate(_changes(node)):
            what = f"{_short(node)} -> {_short(change(copy.deepcopy(node)))}"
            yield Mutant(node.lineno, operator, what, source, index, number, _statement(tree, node.lineno))


def _statement(tree: ast.Module, line: int) -> tuple[int, int]:
    """The lines of the smallest statement around a line; of one with a body, its head alone."""
    around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
    if not around:  # a decorator stands above its statement
        return line, line
    inner = min(around, key=lambda n: n.end_lineno - n.lineno)
    body = getattr(inner, "body", None)
    return inner.lineno, max(body[0].lineno - 1, inner.lineno) if isinstance(body, list) else inner.end_lineno


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) < 150 else text[:147] + "..."


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, new: ast.AST) -> None:
        self.target, self.new = target, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.target else super().visit(node)


def _walk(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions in bodies of functions, but those that only refuse input or describe types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Raise, ast.Assert, ast.arguments, ast.Import, ast.ImportFrom)):
            continue
        if isinstance(node, ast.If) and all(isinstance(s, ast.Raise) for s in node.body) and not node.orelse:
            continue
        if isinstance(node, ast.FunctionDef):
            if node.name not in ("__repr__", "extra_repr", "__str__"):
                yield from _walk(ast.Module(node.body, []))
            continue
        if isinstance(node, ast.ClassDef):
            yield from _walk(ast.Module(node.body, []))
            continue
        if isinstance(node, ast.AnnAssign):
            yield from _walk(ast.Expression(node.value)) if node.value is not None else ()
            continue
        if isinstance(node, ast.expr):
            if isinstance(node, (ast.JoinedStr,)):
                continue
            yield node
            if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
                continue  # -1 is one number
        yield from _walk(node)


def _changes(node: ast.expr) -> Iterator[tuple[str, object]]:
    """(operator, function from a copy of the node to what takes its place)."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        if node.operand.value in (1, 2):
            yield "axis", lambda n: ast.UnaryOp(ast.USub(), ast.Constant(3 - n.operand.value))
        else:
            yield "sign", lambda n: n.operand
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        yield "negation", lambda n: n.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= 8:
        yield "off by one", lambda n: ast.Constant(n.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        yield "constant", lambda n: ast.Constant(n.value * 2 if n.value else 1.0)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", lambda n: ast.Constant(not n.value)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED_BINARY:
        yield "operator", lambda n: ast.BinOp(n.left, SWAPPED_BINARY[type(n.op)](), n.right)
        if isinstance(node.op, (ast.Sub, ast.Div)):
            yield "swapped operands", lambda n: ast.BinOp(n.right, n.op, n.left)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield "swapped operands", lambda n: ast.BinOp(n.right, n.op, n.left)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPPED_COMPARE:
        yield "comparison", lambda n: ast.Compare(n.left, [SWAPPED_COMPARE[type(n.ops[0])]()], n.comparators)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        yield "negation", lambda n: ast.UnaryOp(ast.Not(), n)
    elif isinstance(node, ast.IfExp):
        yield "negation", lambda n: ast.IfExp(n.test, n.orelse, n.body)
    elif isinstance(node, ast.Attribute) and node.attr == "mT":
        yield "removed transpose", lambda n: n.value
    elif isinstance(node, ast.Call):
        yield from _call_changes(node)


def _call_changes(node: ast.Call) -> Iterator[tuple[str, object]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Attribute) and name in MOVES:
        yield "removed transpose", lambda n: n.func.value
    if isinstance(node.func, ast.Attribute) and name in SWAPPED_CALLS:
        yield (
            "swapped call",
            lambda n: ast.Call(ast.Attribute(n.func.value, SWAPPED_CALLS[n.func.attr]), n.args, n.keywords),
        )
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "dtype", "device"):
            yield "dropped argument", lambda n, i=i: ast.Call(n.func, n.args, n.keywords[:i] + n.keywords[i + 1 :])
    two = len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args)
    if two and name not in SYMMETRIC and ast.dump(node.args[0]) != ast.dump(node.args[1]):
        yield "swapped arguments", lambda n: ast.Call(n.func, n.args[::-1], n.keywords)
