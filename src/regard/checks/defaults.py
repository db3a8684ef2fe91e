"""Lists and dicts that are default arguments of a forward: Python makes them once, so what a call puts in stays for all calls."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn


@functools.lru_cache(maxsize=512)
def _of_function(function: Callable[..., Any]) -> tuple[tuple[str, int], ...]:
    """(parameter, place) of every default of a function that is a plain list, dict or set; place -1 is keyword-only."""
    names = list(inspect.signature(function).parameters)
    code = function.__code__
    positional = names[: code.co_argcount]
    defaults = function.__defaults__ or ()
    first = len(positional) - len(defaults)
    found = [(positional[first + i], i) for i, d in enumerate(defaults) if type(d) in (list, dict, set)]
    return (*found, *((n, -1) for n, d in (function.__kwdefaults__ or {}).items() if type(d) in (list, dict, set)))


def mutable_defaults(module: Any) -> list[tuple[str, str, Any]]:
    """(class or function, parameter, the object) for the forward of every part of a module, or for a function."""
    if isinstance(module, nn.Module):
        functions = {type(m): type(m).forward for m in module.modules()}
        named = [(cls.__name__, f) for cls, f in functions.items()]
    else:
        named = [(getattr(module, "__name__", "function"), module)]
    out = []
    for name, function in named:
        plain = inspect.unwrap(function)
        if not inspect.isfunction(plain):
            continue
        for parameter, place in _of_function(plain):
            held = (plain.__kwdefaults__ or {})[parameter] if place < 0 else (plain.__defaults__ or ())[place]
            out.append((name, parameter, held))
    return out


@contextlib.contextmanager
def put_back(module: Any) -> Iterator[None]:
    """Afterwards every such object holds what it held before."""
    kept = [(held, copy.copy(held)) for _, _, held in mutable_defaults(module)]
    try:
        yield
    finally:
        for held, before in kept:
            held.clear()
            if isinstance(held, list):
                held.extend(before)
            else:
                held.update(before)
