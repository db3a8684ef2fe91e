"""The query, key and value projections behind an attention site: found by name, their gradients read by hooks that change nothing.

A projection is a part of one parameter: the whole of `q_proj.weight`, or a third of `qkv.weight`. Names are read, shapes decide
what is part of what; a module whose projections have other names has no rows of gradients, and the row says null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

ROLES = ("query", "key", "value")
_END = r"(_?(s|proj|projs|projection|lin|linear|conv|layer|fc|weight|w))?"
_START = r"((w|to|lin|linear|proj|fc|conv)_?)?"
_NAMES = {
    ("query",): re.compile(rf"{_START}(q|query|queries){_END}"),
    ("key",): re.compile(rf"{_START}(k|key|keys){_END}"),
    ("value",): re.compile(rf"{_START}(v|value|values){_END}"),
    ("query", "key"): re.compile(rf"{_START}qk{_END}"),
    ("key", "value"): re.compile(rf"{_START}kv{_END}"),
    ROLES: re.compile(rf"({_START}qkv{_END}|c_attn|in_proj|in_proj_weight|qkv_bias_free)"),
}
SAMPLE = 256  # entries of a projection that are compared from record to record to see whether it moved


@dataclass
class Projection:
    """One role's part of a parameter: entries first to end of axis dim."""

    role: str
    name: str  # of the parameter, inside the model
    parameter: nn.Parameter
    dim: int
    first: int
    end: int

    def of(self, x: Tensor) -> Tensor:
        return x.narrow(self.dim, self.first, self.end - self.first)

    def sample(self) -> Tensor:
        """A few entries, as a copy."""
        part = self.of(self.parameter.detach())
        return part.flatten()[:: max(1, part.numel() // SAMPLE)].clone()


def projections(model: nn.Module, path: str, heads: int, kv_heads: int) -> list[Projection]:
    """The projections of the module at `path`, or of the nearest child or parent that has a query projection."""
    known = dict(model.named_modules())
    if path not in known:
        return []
    around = [path, *(f"{path}.{name}".lstrip(".") for name, _ in known[path].named_children())]
    parent = path
    for _ in range(2):  # a module of its own for softmax(q k) v stands one or two levels below its projections
        if parent:
            parent = parent.rpartition(".")[0]
            around.append(parent)
    for place in around:
        found = _own(known.get(place), place, heads, kv_heads)
        if any(p.role == "query" for p in found):
            return found
    return []


def _own(module: nn.Module | None, path: str, heads: int, kv_heads: int) -> list[Projection]:
    found: list[Projection] = []
    if module is None:
        return found
    named: list[tuple[str, nn.Module | nn.Parameter | None]] = [
        *module.named_children(),
        *module.named_parameters(recurse=False),
    ]
    for name, part in named:
        roles = next((r for r, pattern in _NAMES.items() if pattern.fullmatch(name.lower().strip("_"))), None)
        inside = _matrix(name, part) if roles else None
        if roles and inside:
            below, parameter, dim = inside
            found += _parts(roles, ".".join(filter(None, (path, below))), parameter, dim, heads, kv_heads)
    return found


def _matrix(name: str, part: nn.Module | nn.Parameter | None) -> tuple[str, nn.Parameter, int] | None:
    """(name, weight, output axis) of a projection: its largest parameter of rank 2 or more."""
    if isinstance(part, nn.Parameter):
        return (name, part, 0) if part.dim() >= 2 else None
    weights = [] if part is None else [(n, p) for n, p in part.named_parameters() if p.dim() >= 2]
    weights = [w for w in weights if "lora" not in w[0].lower()] or weights
    if not weights:
        return None
    below, weight = max(weights, key=lambda w: w[1].numel())
    return f"{name}.{below}", weight, 1 if type(part).__name__ == "Conv1D" else 0


def _parts(roles: tuple[str, ...], name: str, parameter: nn.Parameter, dim: int, heads: int, kv_heads: int):
    """Cut a packed weight by heads: query heads first, then key and value heads, as torch, timm and GPT-2 do."""
    share = {"query": heads, "key": kv_heads, "value": kv_heads}
    size, total = parameter.shape[dim], sum(share[r] for r in roles)
    if len(roles) > 1 and size % total:
        share, total = dict.fromkeys(roles, 1), len(roles)
        if size % total:
            return []
    at, parts = 0, []
    for role in roles:
        length = size if len(roles) == 1 else size // total * share[role]
        parts.append(Projection(role, name, parameter, dim, at, at + length))
        at += length
    return parts


class GradientNorms:
    """The norm of each projection's gradient, read as soon as backward has accumulated it, for one step."""

    def __init__(self, found: list[Projection]):
        self.found = found
        self.norms: dict[str, Tensor] = {}
        parameters = {id(p.parameter): p.parameter for p in found}
        self._handles = [
            p.register_post_accumulate_grad_hook(self._read)
            for p in parameters.values()
            if p.requires_grad and p.is_leaf
        ]

    def _read(self, parameter: Tensor) -> None:
        if parameter.grad is None:
            return
        for p in self.found:
            if p.parameter is parameter:
                self.norms[p.role] = torch.linalg.vector_norm(p.of(parameter.grad.detach()).float())

    def close(self) -> dict[str, float | None]:
        """{"grad_query": norm or None, ...}; None where no gradient came, and nothing for roles that were not found."""
        for handle in self._handles:
            handle.remove()
        return {f"grad_{p.role}": float(self.norms[p.role]) if p.role in self.norms else None for p in self.found}
