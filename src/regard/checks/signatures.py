"""The parameters of any callable: by inspection, or from the first line of the docstring of one that is not written in Python."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

EMPTY = inspect.Parameter.empty


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """What `inspect.signature` gives; for built-in functions what their docstring begins with; without either, no parameters.

    >>> import torch
    >>> list(signature_of(torch.nn.functional.scaled_dot_product_attention).parameters)[:4]
    ['query', 'key', 'value', 'attn_mask']
    """
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return _documented(function)


def flags_of(function: Callable[..., Any]) -> list[str]:
    """Parameters that may be True, False or nothing, and the keys of that kind that a typed **kwargs takes."""
    out = []
    for p in signature_of(function).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            taken = [a for a in typing.get_args(p.annotation) if typing.is_typeddict(a)]
            out += [name for a in taken for name, kind in a.__annotations__.items() if _may_be_flag(kind)]
        elif p.default is None and _may_be_flag(p.annotation):
            out.append(p.name)
    return list(dict.fromkeys(out))


def _may_be_flag(annotation: Any) -> bool:
    """bool | None, Optional[bool], or the text of either."""
    text = getattr(annotation, "__forward_arg__", annotation)
    text = text if isinstance(text, str) else str(annotation)
    return re.fullmatch(r"bool \| None|None \| bool|(typing\.)?Optional\[bool\]", text) is not None


def _documented(function: Callable[..., Any]) -> inspect.Signature:
    """ "name(a, b, c=None) -> Tensor" as a signature; what cannot be read gives no parameters."""
    head = (inspect.getdoc(function) or "").split(")", 1)[0].strip()
    try:
        tree = ast.parse(f"def f{head[head.index('(') :]}): ...")
        (made,) = tree.body
        assert isinstance(made, ast.FunctionDef)
    except (SyntaxError, ValueError, AssertionError):
        return inspect.Signature()
    return inspect.Signature(list(_parameters(made.args)))


def _parameters(given: ast.arguments) -> list[inspect.Parameter]:
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    out = [_parameter(a, d, inspect.Parameter.POSITIONAL_OR_KEYWORD) for a, d in zip(plain, defaults)]
    if given.vararg is not None:
        out.append(inspect.Parameter(given.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    out += [_parameter(a, d, inspect.Parameter.KEYWORD_ONLY) for a, d in zip(given.kwonlyargs, given.kw_defaults)]
    return out


def _parameter(name: ast.arg, default: ast.expr | None, kind: Any) -> inspect.Parameter:
    try:
        value = EMPTY if default is None else ast.literal_eval(default)
    except ValueError:
        value = None
    return inspect.Parameter(name.arg, kind, default=value)
