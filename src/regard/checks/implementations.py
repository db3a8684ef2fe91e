"""The ways in which a model can compute its attention: a method or a setting of its configuration, or a switch of its parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.checks.case import Batch, Case
from regard.checks.subject import clone, invoke, untouched_globals
from regard.intercept import observe

SWITCH = re.compile(
    r"_?(use_?)?(flash|sdpa|fused)(_?(attn|attention))?"
)  # names of one settled meaning: the same, faster
NAMES = ("eager", "sdpa")  # Hugging Face: open code, and torch's function


@dataclass(frozen=True)
class Implementation:
    """How it is called in a report, and what makes a module use it."""

    name: str
    choose: Callable[[nn.Module], Any]


def implementations(module: Any) -> list[tuple[Implementation, Implementation]]:
    """Pairs that should compute the same."""
    if not isinstance(module, nn.Module):
        return []
    out = []
    if callable(getattr(module, "set_attn_implementation", None)) or _configs(module):
        eager, fused = (Implementation(f"the attention implementation {n!r}", _setter(n)) for n in NAMES)
        out.append((eager, fused))
    for name in sorted({n for part in module.modules() for n, v in vars(part).items() if _is_switch(n, v)}):
        off, on = (Implementation(f"{name}={value}", _switcher(name, value)) for value in (False, True))
        out.append((off, on))
    return out


def _is_switch(name: str, value: Any) -> bool:
    return isinstance(value, bool) and SWITCH.fullmatch(name) is not None


def _configs(module: nn.Module) -> list[Any]:
    """Configurations in the parts of a module that name an implementation."""
    found = {id(c): c for c in (getattr(part, "config", None) for part in module.modules()) if c is not None}
    return [c for c in found.values() if isinstance(getattr(c, "_attn_implementation", None), str)]


def _setter(name: str) -> Callable[[nn.Module], None]:
    def choose(module: nn.Module) -> None:
        method = getattr(module, "set_attn_implementation", None)
        if callable(method):
            method(name)
            return
        for config in _configs(module):
            config._attn_implementation = name

    return choose


def _switcher(name: str, value: bool) -> Callable[[nn.Module], None]:
    def choose(module: nn.Module) -> None:
        for part in module.modules():
            if _is_switch(name, vars(part).get(name)):
                setattr(part, name, value)

    return choose


def using(case: Case, implementation: Implementation, dtype: torch.dtype | None = None) -> nn.Module:
    """A copy of the subject that computes its attention so."""
    module = case.subject.instance(fresh=True, dtype=dtype)
    with untouched_globals(case.seed):
        implementation.choose(module)
    return module


def kernels(case: Case, module: nn.Module, batch: Batch) -> list[str]:
    """What computed each attention of a call: "fused", "softmax" ..."""
    kwargs = {k: clone(v) for k, v in case.call.lay_out(batch, case.subject.dtype).items()}
    with untouched_globals(case.seed), torch.no_grad(), observe(module) as seen:
        invoke(module, kwargs)
    return [site.kernel for site in seen.sites]


def paddings(items: int, keys: int) -> Iterator[tuple[str, torch.Tensor]]:
    """(where the padding stands, keep (B, S)): items are padded by 2, 1 and 0."""
    short = torch.tensor([(2, 1, 0)[b % 3] for b in range(items)])[:, None]
    place = torch.arange(keys)[None]
    yield "on the right", place < keys - short
    yield "on the left", place >= short
