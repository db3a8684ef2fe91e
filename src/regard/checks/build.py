"""From a class or factory to an instance: constructor arguments by role, config objects by what they are asked for.

Sizes are pairwise different, so that an axis mix-up cannot pass: width 32, 4 heads, head width 8.
"""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from regard.checks.roles import constructor_role
from regard.checks.subject import describe_error, untouched_globals
from regard.core.errors import TargetError

WIDTH, HEADS, KV_HEADS, HEAD_DIM, DROPOUT = 32, 4, 2, 8, 0.1
SIZES: dict[str, Any] = {
    "width": WIDTH, "out_width": WIDTH, "context_width": WIDTH, "num_heads": HEADS, "num_kv_heads": KV_HEADS,
    "head_dim": HEAD_DIM, "dropout": DROPOUT, "length": 64, "window": 4, "shift": 2, "grid": 8, "batch": 4, "reduction": 4,
    "layers": 1, "layer_index": 0, "vocabulary": 50, "bias": True, "causal": True, "batch_first": True, "count": 4,
    "scale": None,
}  # fmt: skip
MIN_VISION = 64  # width tried when 32 does not divide by what the module wants


class DuckConfig:
    """Answers any attribute, item or get() by the role of its name, and keeps what was asked."""

    def __init__(self, given: dict[str, Any]) -> None:
        object.__setattr__(self, "asked", {})
        object.__setattr__(self, "given", given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._answer(name)

    def __getitem__(self, name: str) -> Any:
        return self._answer(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self._answer(name, default)

    def __contains__(self, name: str) -> bool:
        return constructor_role(name) is not None

    def _answer(self, name: str, default: Any = None) -> Any:
        role = constructor_role(name)
        value = self.given.get(name, default if role is None else SIZES[role])
        if role is None and name not in self.given and default is None:
            value = False
        self.asked[name] = value
        return value


def build(obj: Any, init: dict[str, Any] | None = None, *, seed: int = 0) -> tuple[Any, dict[str, Any]]:
    """An instance (or function) to call, and the constructor arguments that were used.

    Args:
        obj: a module, a class, a factory without required arguments, or a function on tensors.
        init: constructor arguments that the user names; they win over inference.

    Raises:
        TargetError: every attempt failed; the text holds the last error and how to name arguments.
    """
    init = dict(init or {})
    if isinstance(obj, nn.Module):
        return obj, {}
    if not callable(obj):
        raise TargetError(f"{obj!r} is a {type(obj).__name__}, neither a module, a class nor a function")
    is_class = inspect.isclass(obj)
    if not is_class and _looks_like_kernel(obj):
        return obj, {}
    errors: list[str] = []
    for arguments in itertools.islice(candidates(obj, init), 60):
        try:
            with untouched_globals(seed):
                made = obj(**arguments)
        except Exception as error:
            errors.append(describe_error(error))
            continue
        if callable(made):
            return made, {k: v for k, v in arguments.items() if not isinstance(v, DuckConfig)}
        errors.append(f"it returned a {type(made).__name__}, which cannot be called")
        break
    name = getattr(obj, "__name__", repr(obj))
    first = errors[0] if errors else "no way to call it was found"
    raise TargetError(f"{name} could not be built: {first}. Name its arguments with --init name=value")


def _looks_like_kernel(function: Callable[..., Any]) -> bool:
    """A function with required arguments takes tensors; one without makes a module."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def candidates(obj: Any, init: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Constructor arguments to try, the most likely first."""
    try:
        parameters = [p for p in inspect.signature(obj).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        parameters = []
    unknown = set(init) - {p.name for p in parameters}
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        names = ", ".join(p.name for p in parameters) or "none"
        raise TargetError(f"{getattr(obj, '__name__', obj)} has no argument {sorted(unknown)[0]!r}; it has: {names}")
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    for width, heads, grid in _size_plans():
        for optional in (True, False):
            yield {**_arguments(named, width, heads, grid, optional), **init}
    required = [p for p in named if p.default is p.empty]
    for config in ("object", "dict"):
        if len(required) >= 1:
            yield {**_config_arguments(required, config), **init}
    for width in (32, 64, 16, 8):  # what a role did not explain is probably a size
        yield {**{p.name: width for p in required}, **_known(required, width), **init}
    for values in itertools.product((32, 4, 8), repeat=min(len(required), 3)):
        yield {**dict(zip((p.name for p in required), values)), **init}


def _size_plans() -> Iterator[tuple[int, int, Any]]:
    yield WIDTH, HEADS, (8, 8)
    yield WIDTH, HEADS, 8
    yield MIN_VISION, HEADS, (8, 8)
    yield MIN_VISION, HEADS, 8
    yield 64, 8, 8
    yield 256, 8, 8


def _arguments(
    parameters: list[inspect.Parameter], width: int, heads: int, grid: Any, optional: bool
) -> dict[str, Any]:
    """Required arguments by role; with `optional` also dropout (so that dropout faults can show) and key-value heads."""
    out: dict[str, Any] = {}
    for p in parameters:
        role = constructor_role(p.name)
        required = p.default is p.empty
        if required:
            out[p.name] = _required(p, role, width, heads, grid)
        elif optional and role == "dropout" and isinstance(p.default, (int, float)) and not isinstance(p.default, bool):
            out[p.name] = p.default or DROPOUT
        elif optional and role in ("causal", "batch_first") and p.default is None:
            continue
    return out


def _required(p: inspect.Parameter, role: str | None, width: int, heads: int, grid: Any) -> Any:
    if role == "grid":
        return grid if isinstance(grid, int) or not _wants_pair(p) else (8, 8)
    if role == "window" and _wants_pair(p):
        return (4, 4)
    if role == "window" and isinstance(grid, tuple):
        return (4, 4) if "size" in p.name else SIZES["window"]
    if role is not None:
        return {
            **SIZES,
            "width": width,
            "out_width": width,
            "context_width": width,
            "num_heads": heads,
            "head_dim": width // heads,
        }[role]
    by_type = {bool: False, int: width, float: 1.0, str: "", list: [], tuple: (), dict: {}}
    annotation = p.annotation if isinstance(p.annotation, type) else None
    if annotation in by_type:
        return by_type[annotation]
    if annotation is not None and issubclass(annotation, nn.Module):
        return nn.Identity()
    if "norm" in p.name:
        return nn.LayerNorm
    if "act" in p.name or "fn" in p.name:
        return nn.Identity() if "fn" in p.name else nn.GELU
    return DuckConfig({}) if _config_like(p.name) else width


def _wants_pair(p: inspect.Parameter) -> bool:
    text = str(p.annotation)
    return "uple" in text or typing.get_origin(p.annotation) in (tuple, list)


def _config_like(name: str) -> bool:
    return name.lower().strip("_") in {
        "config",
        "cfg",
        "args",
        "conf",
        "hparams",
        "params",
        "opt",
        "options",
        "model_args",
        "hp",
        "configs",
        "model_config",
    }


def _known(parameters: list[inspect.Parameter], width: int) -> dict[str, Any]:
    return {
        p.name: _required(p, constructor_role(p.name), width, HEADS, 8) for p in parameters if constructor_role(p.name)
    }


def _config_arguments(required: list[inspect.Parameter], form: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for p in required:
        if constructor_role(p.name) and not _config_like(p.name):
            out[p.name] = _required(p, constructor_role(p.name), WIDTH, HEADS, 8)
        elif form == "dict":
            out[p.name] = _AskingDict()
        else:
            out[p.name] = _typed_config(p) or DuckConfig({})
    return out


def _typed_config(p: inspect.Parameter) -> Any:
    """An instance of an annotated config class, its fields set by role where it has them."""
    annotation = p.annotation
    if not inspect.isclass(annotation) or annotation in (object, dict, types.SimpleNamespace) or annotation is p.empty:
        return None
    try:
        fields = inspect.signature(annotation).parameters.values()
        given = {}
        for f in fields:
            role = constructor_role(f.name)
            if f.kind in (f.POSITIONAL_OR_KEYWORD, f.KEYWORD_ONLY) and role and f.default is f.empty:
                given[f.name] = SIZES[role]
            elif role == "dropout" and f.default == 0:
                given[f.name] = DROPOUT
        return annotation(**given)
    except Exception:
        return None


class _AskingDict(dict):
    """A dictionary that answers missing keys by role."""

    def __missing__(self, name: str) -> Any:
        role = constructor_role(str(name))
        return SIZES[role] if role else WIDTH

    def get(self, name: str, default: Any = None) -> Any:
        role = constructor_role(str(name))
        return SIZES[role] if role else default


def parameter_count(module: Any) -> int:
    return sum(p.numel() for p in module.parameters()) if isinstance(module, nn.Module) else 0


def dropout_rate(module: Any) -> float:
    """The largest rate among dropout layers and attributes named for dropout; 0 where there is none."""
    rate = 0.0
    for part in module.modules() if isinstance(module, nn.Module) else ():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            rate = max(rate, part.p)
        for name, value in vars(part).items():
            if isinstance(value, float) and constructor_role(name) == "dropout" and 0.0 < value < 1.0:
                rate = max(rate, value)
    return rate


def device_of(module: Any) -> torch.device:
    p = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    return p.device if p is not None else torch.device("cpu")
