"""Which constructor arguments to try: values by the role of a name, by its annotation, then by trial.

Sizes are pairwise different, so that an axis mix-up cannot pass: width 32, 4 heads, head width 8.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import inspect
import itertools
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any

from torch import nn

from regard.checks.config_objects import AskingDict, DuckConfig, names_a_config, typed_config
from regard.checks.roles import SIZES, constructor_role
from regard.core.errors import TargetError

WIDTH, HEADS = SIZES["width"], SIZES["num_heads"]
ONE_SIDE = re.compile(r"(.*_)?([hw]|height|width|[hw]_s)")
WHOLE = re.compile(
    r"layer_?drop|drop_?path|drop_?layer|stochastic|tokens?_drop|drop_?tokens?|drop_for"
)  # drops more than weights
ACTIVATION = re.compile(r"(^|_)act")  # no factor
FLAG = re.compile(r"(use|no|with|without|is|has|fixed|enable|disable|do|add)_")  # says yes or no
FLIPS = 3  # switches that are tried the other way, when nothing runs as it is
MANY = 64  # a default count above this (classes, buckets) is made small
SIBLINGS = 3  # classes of the same module that are tried for a parameter that wants a module


@dataclass(frozen=True)
class Plan:
    """One set of sizes. `optional`: which defaults are replaced: "none", "dropout" (so that dropout faults can show), "calls"
    (layers that are None and get called), "all" (windows, sizes, norms) or "flip 0" ... (one switch the other way).
    `unknown`: what a parameter gets whose name and annotation say nothing."""

    width: int = WIDTH
    heads: int = HEADS
    grid: Any = (8, 8)
    optional: str = "dropout"
    unknown: str = "size"  # "size" | "module" | "sibling 0" ... | "none" | "small"


PLANS = (
    Plan(), Plan(optional="none"), Plan(grid=8), Plan(grid=8, optional="none"),
    Plan(unknown="literal 0"), Plan(grid=8, unknown="literal 0"), Plan(unknown="literal 1"), Plan(unknown="module"), Plan(grid=8, unknown="small"), Plan(unknown="none"),
    *(Plan(unknown=f"sibling {i}") for i in range(SIBLINGS)),
    Plan(optional="calls"), Plan(optional="all"), Plan(grid=8, optional="all"),
    Plan(width=64, grid=8, optional="all"), Plan(width=64), Plan(width=64, optional="none"), Plan(width=64, grid=8), Plan(width=64, heads=8, grid=8), Plan(width=256, heads=8, grid=8),
    *(Plan(optional=f"flip {i}") for i in range(FLIPS)),
)  # fmt: skip


def candidates(obj: Any, init: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Constructor arguments to try, the most likely first, none twice."""
    seen: set[str] = set()
    for arguments in _all_candidates(obj, init):
        mark = repr(
            sorted(
                (k, v if isinstance(v, (int, float, str, tuple, type(None))) else type(v)) for k, v in arguments.items()
            )
        )
        if mark not in seen:
            seen.add(mark)
            yield arguments


def _all_candidates(obj: Any, init: dict[str, Any]) -> Iterator[dict[str, Any]]:
    named = _parameters(obj, init)
    types = _annotations(obj)
    required = [p for p in named if p.default is p.empty]
    for i, plan in enumerate(PLANS):
        yield {**_arguments(obj, named, types, plan), **init}
        if i == 3 and required:
            for form in ("object", "numbers", "dict"):
                yield {**_config_arguments(obj, required, types, form), **init}
    for width in (32, 64, 16, 8):  # what a role did not explain is probably a size
        roles = {
            p.name: _required(obj, p, types, Plan(width=width, grid=8)) for p in required if constructor_role(p.name)
        }
        yield {**{p.name: width for p in required}, **roles, **init}
    for values in itertools.product((32, 4, 8), repeat=min(len(required), 3)):
        yield {**dict(zip((p.name for p in required), values)), **init}


def _parameters(obj: Any, init: dict[str, Any]) -> list[inspect.Parameter]:
    try:
        parameters = [p for p in inspect.signature(obj).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        parameters = []
    unknown = set(init) - {p.name for p in parameters}
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        names = ", ".join(p.name for p in parameters) or "none"
        raise TargetError(f"{getattr(obj, '__name__', obj)} has no argument {sorted(unknown)[0]!r}; it has: {names}")
    return [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL, p.POSITIONAL_ONLY)]


def _annotations(obj: Any) -> dict[str, Any]:
    """Annotations as types, also where the file postpones them; Optional[X] counts as X."""
    function = obj.__init__ if inspect.isclass(obj) else obj
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    out = {}
    for name, hint in hints.items():
        inner = [a for a in typing.get_args(hint) if a is not type(None)]
        optional = type(None) in typing.get_args(hint)
        modules = [a for a in inner if inspect.isclass(a) and issubclass(a, nn.Module)]
        if modules and typing.get_origin(hint) in (typing.Union, UnionType):
            out[name] = modules[0]
        else:
            out[name] = inner[0] if optional and len(inner) == 1 else hint
    return out


def _arguments(obj: Any, parameters: list[inspect.Parameter], types: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Required arguments by role; those with a default as far as the plan says."""
    out: dict[str, Any] = {}
    switches = [p.name for p in parameters if isinstance(p.default, bool)]
    if plan.optional.startswith("flip") and int(plan.optional[-1]) < len(switches):
        name = switches[int(plan.optional[-1])]
        out[name] = not next(p.default for p in parameters if p.name == name)
    for p in parameters:
        role = constructor_role(p.name)
        if p.default is p.empty:
            out[p.name] = _required(obj, p, types, plan)
        elif (
            plan.optional != "none"
            and role == "dropout"
            and type(p.default) in (int, float)
            and not WHOLE.search(p.name)
        ):
            out[p.name] = p.default or SIZES["dropout"]
        elif plan.optional == "all" or (plan.optional == "calls" and p.default is None and role is None):
            out |= _replaced(p, role, plan)
    return out


def _replaced(p: inspect.Parameter, role: str | None, plan: Plan) -> dict[str, Any]:
    """A value in place of a default that cannot be used as it is: a missing callable, a size made for large inputs."""
    if p.default is None and role in ("window", "length", "grid", "layers"):
        return {p.name: SIZES[role]}
    if p.default is None:
        layers = ((re.compile("norm"), nn.LayerNorm), (ACTIVATION, nn.GELU))
        return next(({p.name: layer} for word, layer in layers if word.search(p.name)), {})
    if (
        isinstance(p.default, int)
        and not isinstance(p.default, bool)
        and role in ("window", "width", "length", "grid", "num_heads")
    ):
        return {p.name: {"width": plan.width, "num_heads": plan.heads}.get(role, 8 if role == "grid" else SIZES[role])}
    if type(p.default) is int and role == "count" and p.default > MANY:
        return {p.name: SIZES[role]}
    return {}


def _required(obj: Any, p: inspect.Parameter, types: dict[str, Any], plan: Plan) -> Any:
    role = constructor_role(p.name)
    hint = types.get(p.name, p.annotation)
    two = unpacked(obj, p.name) == 2
    pair = two or "uple" in str(hint) or typing.get_origin(hint) in (tuple, list)
    if two and role not in ("window", "length"):
        role = "grid"  # the two sides of a map
    if role == "grid":
        return (8, 8) if pair else SIZES["grid"] if ONE_SIDE.fullmatch(p.name) else plan.grid
    if role == "window":
        return (4, 4) if pair or (isinstance(plan.grid, tuple) and "size" in p.name) else SIZES["window"]
    made = _of_class(hint)
    if made is not None:
        return made
    if plan.unknown.startswith("literal") and len(compared := literals(obj, p.name)) > int(plan.unknown[-1]):
        return compared[int(plan.unknown[-1])]
    if role is not None:
        by_plan = {"width": plan.width, "out_width": plan.width, "context_width": plan.width, "num_heads": plan.heads}
        return {**SIZES, **by_plan, "head_dim": plan.width // plan.heads}[role]
    by_type = {
        bool: False,
        int: plan.width if plan.unknown != "small" else 2,
        float: 0.5,  # 1 - 1.0 would hide what it multiplies
        str: "",
        list: [],
        tuple: (),
        dict: {},
    }
    if hint in by_type:
        return by_type[hint]
    return _unknown(obj, p, plan)


def _unknown(obj: Any, p: inspect.Parameter, plan: Plan) -> Any:
    """A value for a parameter that only its name describes."""
    if names_a_config(p.name):
        return DuckConfig({})
    if "norm" in p.name:
        return nn.LayerNorm
    if ACTIVATION.search(p.name):
        return nn.GELU
    if FLAG.match(p.name):
        return plan.unknown == "module"
    if "mask" in p.name or plan.unknown == "none":
        return None
    if p.name == "fn" or plan.unknown == "module":
        return nn.Identity()
    if plan.unknown.startswith("sibling"):
        return _sibling(obj, p.name, int(plan.unknown[-1]))
    return 2 if plan.unknown == "small" else plan.width


def _tree(obj: Any) -> ast.AST:
    """The source of a constructor or function; an empty tree where there is none."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(obj.__init__ if inspect.isclass(obj) else obj)))
    except (OSError, TypeError, SyntaxError):
        return ast.Module(body=[], type_ignores=[])


def unpacked(obj: Any, name: str) -> int:
    """Into how many names a constructor unpacks a parameter: 2 for `h, w = size`, 0 where it does not."""
    for node in ast.walk(_tree(obj)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name:
            for target in node.targets:
                if isinstance(target, ast.Tuple):
                    return len(target.elts)
    return 0


def literals(obj: Any, name: str) -> list[Any]:
    """The constants that a constructor compares a parameter with: what its author expects there."""
    found: list[Any] = []
    for node in ast.walk(_tree(obj)):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == name:
            for other in node.comparators:
                parts = other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else [other]
                for part in parts:
                    with contextlib.suppress(ValueError):
                        found.append(ast.literal_eval(part))
    return [v for v in dict.fromkeys(found) if v is not None]


def _of_class(hint: Any) -> Any:
    """An instance for an annotation that is a class: a module, an enumeration or a data class; None for anything else."""
    if not inspect.isclass(hint) or hint.__module__ in ("builtins", "typing", "inspect"):
        return None
    if issubclass(hint, enum.Enum):
        return next(iter(hint), None)
    if hint is nn.Module:
        return nn.Identity()
    if issubclass(hint, nn.Module):
        return _constructed(hint)
    return typed_config(hint) if not hint.__module__.startswith("torch") else None


def _constructed(cls: Any) -> Any:
    """An instance by the likeliest plan that runs."""
    for arguments in itertools.islice(candidates(cls, {}), len(PLANS)):
        try:
            return cls(**arguments)
        except Exception:  # the next plan is tried
            continue
    return None


def _sibling(obj: Any, name: str, number: int) -> Any:
    """An instance of a class of the same module whose name shares a word with the parameter's; else a size."""
    module = sys.modules.get(getattr(obj, "__module__", ""), None)
    word = name.lower().strip("_")[:4]
    near = [
        c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, nn.Module) and c is not obj and word in c.__name__.lower()
    ] if module else []  # fmt: skip
    return _constructed(near[number]) if number < len(near) else WIDTH


def _config_arguments(obj: Any, required: list[inspect.Parameter], types: dict[str, Any], form: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    makers: dict[str, Callable[[], Any]] = {
        "object": lambda: DuckConfig({}),
        "numbers": lambda: DuckConfig({}, SIZES["head_dim"]),
        "dict": AskingDict,
    }
    for p in required:
        if constructor_role(p.name) and not names_a_config(p.name):
            out[p.name] = _required(obj, p, types, Plan(grid=8))
        else:
            out[p.name] = (typed_config(types.get(p.name)) if form == "object" else None) or makers[form]()
    return out
