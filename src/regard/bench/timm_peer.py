"""timm as a peer to measure against, also where torchvision cannot be installed.

timm imports torchvision for data sets, transforms and one frozen norm; the layers and models measured here use none of
them. Where torchvision is missing, names from it are empty classes while timm is imported, and are gone afterwards.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType

from regard.core.errors import MissingExtraError


def load_timm(*submodules: str) -> list[ModuleType]:
    """Import timm and some of its modules, with torchvision or without.

    Args:
        *submodules: Such as "layers.cbam" or "models.swin_transformer".

    Raises:
        MissingExtraError: timm is not installed.
    """
    if importlib.util.find_spec("timm") is None:
        raise MissingExtraError("the vision peers need timm; install it with: pip install --no-deps timm")
    finder = None if importlib.util.find_spec("torchvision") else EmptyTorchvision()
    if finder:
        sys.meta_path.append(finder)
    try:
        return [importlib.import_module(f"timm.{name}") for name in submodules]
    finally:
        if finder:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]


def _nothing(self, *given, **named) -> None:
    """Takes whatever it is called with."""


class _EmptyClass(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name  # members of an enumeration are told apart by their names


class _EmptyModule(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _EmptyClass(name, (), {"__init__": _nothing, "__call__": _nothing})
        setattr(self, name, made)
        return made


class EmptyTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Put on `sys.meta_path`, it finds every module of torchvision, and each has every class it is asked for."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return _EmptyModule(spec.name)

    def exec_module(self, module) -> None:
        vars(module)["__version__"] = "0.0.0"
