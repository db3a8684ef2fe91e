"""What a class does when it is called: the methods that its forward reaches, with the constructor's apart; and softmax-weighted sums.

A `generate` that draws tokens from a softmax is no attention of the class, nor is a product that only the constructor writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

CALLED = ("forward", "__call__", "call")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def methods(node: ast.ClassDef) -> dict[str, Function]:
    return {m.name: m for m in node.body if isinstance(m, Function)}


def running(node: ast.ClassDef, inherited: dict[str, Function] | None = None) -> list[ast.AST]:
    """What runs when the class is called: its forward and every method that this, or a value kept by the constructor, names.

    `inherited`: methods of base classes of the same file. Without a forward of its own or of those, all methods count: the
    forward is elsewhere.
    """
    own = {**(inherited or {}), **methods(node)}
    begin = [own[name] for name in CALLED if name in own]
    if not begin:
        return list(methods(node).values())
    made = constructing(node)
    kept = [own[name] for part in made for name in _kept(part) if name in own and name not in CALLED]
    return _reached([*begin, *kept], {n: m for n, m in own.items() if n != "__init__"})


def constructing(node: ast.ClassDef) -> list[ast.AST]:
    """The constructor and what it calls, and plain statements of the class: layers are made here, nothing is computed."""
    own = methods(node)
    rest: list[ast.AST] = [s for s in node.body if not isinstance(s, Function | ast.ClassDef)]
    begin = [own["__init__"]] if "__init__" in own else []
    return rest + _reached(begin, {n: m for n, m in own.items() if n not in CALLED})


def _reached(begin: list[Function], own: dict[str, Function]) -> list[ast.AST]:
    found: list[Function] = []
    todo = list(begin)
    while todo:
        method = todo.pop(0)
        if method in found:
            continue
        found.append(method)
        named = {part.attr for part in ast.walk(method) if isinstance(part, ast.Attribute)}
        todo += [
            own[name] for name in sorted(named) if name in own and "loss" not in name
        ]  # a loss is no part of a layer
    return list(found)


def _kept(part: ast.AST) -> Iterator[str]:
    """Methods handed on without being called: `self.attend = self._flash`."""
    called = {id(c.func) for c in ast.walk(part) if isinstance(c, ast.Call)}
    for a in ast.walk(part):
        if (
            isinstance(a, ast.Attribute)
            and id(a) not in called
            and isinstance(a.value, ast.Name)
            and a.value.id == "self"
        ):
            yield a.attr


def normalised_product(function: ast.AST, products: set[str]) -> bool:
    """Does it take exponentials and divide by a product of them, as attention-free and linear attention do?"""
    assigned = _assigned(function)
    for part in ast.walk(function):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div):
            below = assigned.get(part.right.id, part.right) if isinstance(part.right, ast.Name) else part.right
            product = any(isinstance(b, ast.BinOp) and isinstance(b.op, ast.MatMult) for b in ast.walk(below))
            if product or _calls(below) & products:
                return "exp" in _calls(function)
    return False


def _assigned(function: ast.AST) -> dict[str, ast.expr]:
    """Name -> what was assigned to it last."""
    return {
        part.targets[0].id: part.value
        for part in ast.walk(function)
        if isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name)
    }


def weighted_sum(function: ast.AST, softmaxes: set[str]) -> bool:
    """Does it sum the product of a softmax and something that is no logarithm: `(weights * values).sum(1)`?"""
    assigned = _assigned(function)
    soft = {name for name, value in assigned.items() if _calls(value) & softmaxes}

    def weighs(e: ast.expr) -> bool:
        return bool(_calls(e) & softmaxes or _names(e) & soft)

    for part in ast.walk(function):
        if not (isinstance(part, ast.Call) and _name(part.func) in ("sum", "reduce")):
            continue
        summed = [part.func.value] if isinstance(part.func, ast.Attribute) else []
        for e in [*summed, *part.args[:1]]:
            e = assigned.get(e.id, e) if isinstance(e, ast.Name) else e
            sides = _factors(e)
            if sides and any(map(weighs, sides)) and not any("log" in c for s in sides for c in _calls(s)):
                others = [s for s in sides if not weighs(s)]
                if others and all(not isinstance(s, ast.Constant) for s in others):
                    return True
    return False


def _factors(e: ast.expr) -> list[ast.expr]:
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
        return [e.left, e.right]
    if isinstance(e, ast.Call) and _name(e.func) in ("mul", "multiply"):
        own = [e.func.value] if isinstance(e.func, ast.Attribute) and not _module(e.func.value) else []
        return [*own, *e.args]
    return []


def _module(e: ast.expr) -> bool:
    return isinstance(e, ast.Name) and e.id in ("torch", "F", "np", "jnp", "tf", "ops")


def _name(e: ast.expr) -> str:
    return e.attr if isinstance(e, ast.Attribute) else getattr(e, "id", "")


def _calls(e: ast.AST) -> set[str]:
    return {_name(c.func) for c in ast.walk(e) if isinstance(c, ast.Call)}


def _names(e: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}
