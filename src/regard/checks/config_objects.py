"""Objects that stand for a configuration: they answer any field by the role of its name, and say what they were asked for."""

from __future__ import annotations

import inspect
import types
from typing import Any

from regard.checks.roles import SIZES, constructor_role

NAMES = {
    "config", "cfg", "args", "conf", "hparams", "params", "opt", "options", "model_args", "hp", "configs", "model_config",
}  # fmt: skip


def names_a_config(name: str) -> bool:
    return name.lower().strip("_") in NAMES


class DuckConfig:
    """Answers any attribute, item or get() by the role of its name; what has no role is `unknown`."""

    def __init__(self, given: dict[str, Any], unknown: Any = False) -> None:
        object.__setattr__(self, "asked", {})
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "unknown", unknown)

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
            value = self.unknown
        self.asked[name] = value
        return value


class AskingDict(dict):
    """A dictionary that answers missing keys by role."""

    def __missing__(self, name: str) -> Any:
        role = constructor_role(str(name))
        return SIZES[role] if role else SIZES["width"]

    def get(self, name: str, default: Any = None) -> Any:
        role = constructor_role(str(name))
        return SIZES[role] if role else default


def typed_config(annotation: Any) -> Any:
    """An instance of an annotated config class, its required fields set by role, else by type; None where that fails."""
    if not inspect.isclass(annotation) or annotation in (object, dict, types.SimpleNamespace, inspect.Parameter.empty):
        return None
    try:
        given = {}
        for f in inspect.signature(annotation).parameters.values():
            role = constructor_role(f.name)
            if f.kind in (f.POSITIONAL_OR_KEYWORD, f.KEYWORD_ONLY) and f.default is f.empty:
                given[f.name] = SIZES[role] if role else _by_type(f.annotation)
            elif role == "dropout" and f.default == 0:
                given[f.name] = SIZES["dropout"]
        return annotation(**given)
    except Exception:
        return None


def _by_type(annotation: Any) -> Any:
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return {"bool": False, "float": 0.5, "str": ""}.get(name, SIZES["head_dim"])
