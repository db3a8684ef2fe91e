"""Where an operation was called: the innermost nn.Module and the user's source line. No hook is put on any module.

Two process-wide forward hooks follow the call stack; they leave the fast paths of torch.nn on, which hooks on modules do not.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = ("einops", "opt_einsum", "contextlib.py", "functools.py", "_contextlib.py", "<frozen")


def source_line() -> str:
    """ "file:line" of the first frame outside torch, einops, modes that pass calls on and this package; "" when there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        passed_on = frame.f_code.co_name == "__torch_function__"  # a mode that hands the call on
        if not (passed_on or name.startswith((_TORCH, _HERE, "<")) or _is_library(name)):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_library(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return any(part in _LIBRARIES for part in parts[-3:])


class ModuleStack:
    """The modules that are running in this thread, innermost last, with the shapes of their first tensor input."""

    def __init__(self, root: nn.Module | None):
        self.names = {id(m): n for n, m in root.named_modules(remove_duplicate=True)} if root is not None else {}
        self.root = root
        self.running: list[tuple[nn.Module, tuple[int, ...]]] = []
        self.calls: dict[str, int] = {}
        self.thread = threading.get_ident()
        self._handles: list = []

    def __enter__(self) -> ModuleStack:
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        if self.root is not None and any(hasattr(m, "_orig_mod") for m in self.root.modules()):
            warnings.filterwarnings(
                "ignore", "Using `torch.compile.module.` when there are global hooks"
            )  # ours see that
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *_) -> None:
        for handle in self._handles:
            handle.remove()
        self._quiet.__exit__(None, None, None)
        self.running.clear()

    def _enter(self, module: nn.Module, args) -> None:
        if threading.get_ident() == self.thread:
            shape = next((tuple(a.shape) for a in args if isinstance(a, torch.Tensor) and not a.is_nested), ())
            self.running.append((module, shape))
            path = self.name(module)
            self.calls[path] = self.calls.get(path, 0) + 1

    def _leave(self, module: nn.Module, args, output) -> None:
        if threading.get_ident() == self.thread:
            while self.running:
                if self.running.pop()[0] is module:
                    break

    def name(self, module: nn.Module) -> str:
        return self.names.get(id(module), type(module).__name__)

    @property
    def path(self) -> str:
        """Dotted path of the innermost running module ("" for the root itself, the class name for a foreign one)."""
        return self.name(self.running[-1][0]) if self.running else ""

    @property
    def innermost(self) -> nn.Module | None:
        return self.running[-1][0] if self.running else None

    @property
    def batch(self) -> int | None:
        """The first axis of the outermost module's first tensor: the batch, for batch-first models."""
        return next((shape[0] for _, shape in self.running if shape), None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first tensor given to the innermost module that got one."""
        return next((shape for _, shape in reversed(self.running) if shape), ())
