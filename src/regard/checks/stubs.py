"""Stand-ins for third-party modules that are not installed: enough to import a file, and never enough to compute with.

Names can be imported, subclassed, subscripted and used in isinstance; a decorator that only registers or only checks types
lets its function pass. Anything else that calls a stand-in raises MissingPackage with the package's name, so nothing that a
stand-in touched is ever reported as checked.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from regard.core.errors import RegardError

PASSES = re.compile(
    r"^(register\w*|register|add_\w*docstrings?\w*|replace_return_docstrings|typechecked|jaxtyped|beartype)$"
)


needed: list[str] = []  # stand-ins that were called in this process, in order


def missing(path: str) -> str:
    """The sentence about a stand-in that was called."""
    return f"{path} is needed, and the package {path.split('.')[0]!r} is not installed"


class MissingPackage(RegardError, ImportError):
    """A package that is not installed was needed to run the target."""


class _StandInType(type):
    """Metaclass of stand-ins: attributes are stand-ins, calls are refused."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(f"{cls.__regard_path__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        path = cls.__regard_path__
        if PASSES.match(path.rpartition(".")[2]):
            only_function = len(args) == 1 and not kwargs and callable(args[0])
            return args[0] if only_function else _unchanged
        needed.append(path)
        raise MissingPackage(missing(path))

    def __getitem__(cls, item: Any) -> Any:
        return cls


def _unchanged(function: Any) -> Any:
    return function


def stand_in(path: str) -> Any:
    """A class that stands for "package.name"."""
    return _StandInType(path.rpartition(".")[2], (), {"__regard_path__": path, "__module__": path.rpartition(".")[0]})


class _StandInModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = stand_in(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves stand-ins for the named top-level packages, after every real finder has failed."""

    def __init__(self, packages: Iterable[str]) -> None:
        self.packages = set(packages)
        self.served: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        self.served.append(spec.name)
        return _StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass

    def __enter__(self) -> StandInFinder:
        sys.meta_path.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)
        for name in self.served:  # whoever imports the package later must not get a stand-in
            sys.modules.pop(name, None)
