"""From a class or factory to instances: every way to construct it that runs, the likeliest first."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from regard.checks.config_objects import DuckConfig
from regard.checks.constructor import WHOLE, candidates
from regard.checks.first_calls import with_first_call
from regard.checks.roles import constructor_role
from regard.checks.subject import describe_error, line_in, untouched_globals
from regard.core.errors import TargetError

ATTEMPTS = 80  # constructor calls


def build(obj: Any, init: dict[str, Any] | None = None, *, seed: int = 0) -> tuple[Any, dict[str, Any]]:
    """The likeliest instance (or function) to call, and the constructor arguments that were used; see `builds`."""
    return next(builds(obj, init, seed=seed))


def builds(obj: Any, init: dict[str, Any] | None = None, *, seed: int = 0) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Instances (or the function itself) with the constructor arguments that were used, the likeliest first.

    Args:
        obj: a module, a class, a factory without required arguments, or a function on tensors.
        init: constructor arguments that the user names; they win over inference.

    Raises:
        TargetError: every attempt failed; the text holds the likeliest error and how to name arguments.
    """
    init = dict(init or {})
    if isinstance(obj, nn.Module):
        yield obj, {}
        return
    if not callable(obj):
        raise TargetError(f"{obj!r} is a {type(obj).__name__}, neither a module, a class nor a function")
    if not inspect.isclass(obj) and _looks_like_kernel(obj):
        yield obj, {}
        return
    errors: list[tuple[int, str]] = []  # how far the constructor came, and why it stopped
    made_one = False
    for arguments in itertools.islice(candidates(obj, init), ATTEMPTS):
        made = _construct(obj, arguments, seed, errors)
        if made is not None:
            made_one = True
            ready = with_first_call(made, seed)
            made = made if ready is None else ready
            yield made, {k: v for k, v in arguments.items() if not isinstance(v, DuckConfig)}
    if not made_one:
        name = getattr(obj, "__name__", repr(obj))
        first = max(errors, key=lambda e: e[0])[1] if errors else "no way to call it was found"
        raise TargetError(f"{name} could not be built: {first}. Name its arguments with --init name=value")


def _construct(obj: Any, arguments: dict[str, Any], seed: int, errors: list[tuple[int, str]]) -> Any:
    """The object, or None with the reason in `errors`."""
    try:
        with untouched_globals(seed):
            made = obj(**arguments)
    except Exception as error:
        errors.append((line_in(error, obj.__init__ if inspect.isclass(obj) else obj), describe_error(error)))
        return None
    if not callable(made):
        errors.append((1 << 20, f"it returned a {type(made).__name__}, which cannot be called"))
        return None
    return made


def _looks_like_kernel(function: Callable[..., Any]) -> bool:
    """A function with required arguments takes tensors; one without makes a module."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def parameter_count(module: Any) -> int:
    return sum(p.numel() for p in module.parameters()) if isinstance(module, nn.Module) else 0


def dropout_rate(module: Any) -> float:
    """The largest rate among dropout layers and attributes named for dropout; 0 where there is none."""
    rate = 0.0
    for part in module.modules() if isinstance(module, nn.Module) else ():
        if WHOLE.search(type(part).__name__.lower()):
            continue  # drops the branch of a whole item, now and then
        if isinstance(part, nn.modules.dropout._DropoutNd):
            rate = max(rate, part.p)
        for name, value in vars(part).items():
            named = constructor_role(name) == "dropout" and not WHOLE.search(name)
            if isinstance(value, float) and named and 0.0 < value < 1.0:
                rate = max(rate, value)
    return rate


def device_of(module: Any) -> torch.device:
    p = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    return p.device if p is not None else torch.device("cpu")
