"""Our attention in the place of a model's own: each module that can be read, with its weights, verified; and back again."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.adapt import huggingface, timm_modules, torch_modules, x_transformers_modules
from regard.adapt.hf_count import attention_modules
from regard.convert.doors import convert
from regard.convert.stand_in import InTimm, InTorch, InXTransformers
from regard.convert.stand_in_hf import InHuggingFace, first_of, stand_in as in_hf
from regard.convert.verify import Comparison, allowance
from regard.core.errors import ConversionError, RegardError
from regard.nn.multi_head import MultiHeadAttention

HOOKS = (  # where torch keeps what runs around a forward
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
)
_log = logging.getLogger("regard.convert")
Maker = Callable[[MultiHeadAttention, Any], nn.Module]


class Replaced:
    """A model whose attention was exchanged. Made by `replace()`.

    Attributes:
        modules: Path -> the difference on random input between the module that stood there and ours; NaN: not verified.
        left: Path -> why the attention there was left as it is.
    """

    def __init__(self, model: nn.Module):
        self.modules: dict[str, float] = {}
        self.left: dict[str, str] = {}
        self._model = model
        self._before: list[tuple[nn.Module, str, nn.Module]] = []

    def put(self, paths: list[str], new: nn.Module, difference: float) -> None:
        """Put one module at all the paths where another stood."""
        for path in paths:
            parent, _, name = path.rpartition(".")
            holder = self._model.get_submodule(parent)
            for kept in HOOKS:  # one table for both: a hook taken off one is off the other
                setattr(new, kept, getattr(getattr(holder, name), kept))
            self._before.append((holder, name, getattr(holder, name)))
            setattr(holder, name, new)
            self.modules[path] = difference

    def undo(self) -> None:
        """Put the model's own modules back, with the weights that they had. A second call does nothing."""
        for holder, name, module in reversed(self._before):
            module.train(getattr(holder, name).training)
            setattr(holder, name, module)
        self._before.clear()

    def __enter__(self) -> Replaced:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"{len(self.modules)} replaced, {len(self.left)} left in {type(self._model).__name__}"]
        for path, apart in self.modules.items():
            said = "not verified" if math.isnan(apart) else f"{apart:.1e} apart on random input"
            lines.append(f"  replaced {path}: {said}")
        lines += [f"  left {path}: {why}" for path, why in self.left.items()]
        return "\n".join(lines)


def replace(
    model: nn.Module,
    *,
    only: Callable[[str, nn.Module], bool] | None = None,
    verify: bool = True,
) -> Replaced:
    """Exchange the attention modules of a model for `regard.nn.MultiHeadAttention`, with their weights.

    Read are torch's `nn.MultiheadAttention`, self-attention of Hugging Face transformers, timm's `Attention` and that of
    x-transformers. Each keeps its signature and its hooks. Parameters are new: exchange before an optimizer is made.

    Args:
        model: Changed in place.
        only: Called with path and module; False leaves it.
        verify: Run each module and ours on random input; one that differs is left, with the reason.

    Returns:
        What was exchanged and how far apart it is, what was left and why, and `undo()`. Print it.

    Raises:
        ConversionError: There is no attention module, or none could be exchanged; the text has the reasons.
    """
    if not isinstance(model, nn.Module):
        raise ConversionError(f"a model was expected, got {type(model).__name__}")
    made, places = Replaced(model), _places(model)
    for module, paths in places.items():
        if only is not None and not only(paths[0], module):
            made.left |= dict.fromkeys(paths, "only= said so")
            continue
        try:
            new, apart = _exchanged(module, verify)
        except Exception as error:  # somebody else's module may raise anything when it is called
            made.left |= dict.fromkeys(paths, _reason(error))
            continue
        made.put(paths, new, apart)
    if not made.modules:
        raise ConversionError(_nothing(model, made.left))
    _log.info("%s", made)
    return made


def _places(model: nn.Module) -> dict[nn.Module, list[str]]:
    """Every attention module, with all paths under which the model holds it."""
    wanted = attention_modules(model)
    places: dict[nn.Module, list[str]] = {module: [] for module in wanted}
    for path, module in model.named_modules(remove_duplicate=False):
        if module in places and path:
            places[module].append(path)
    return {module: paths for module, paths in places.items() if paths}


def _exchanged(module: nn.Module, verify: bool) -> tuple[nn.Module, float]:
    """The stand-in, in the mode of the module, and how far apart the two are."""
    adapter, door, maker = _family(module)
    layer = convert(adapter, module, door, verify, None, {})
    new = maker(layer, module).train(module.training)
    new.requires_grad_(any(parameter.requires_grad for parameter in module.parameters()))
    return new, _difference(adapter, module, new) if verify else math.nan


def _family(module: nn.Module) -> tuple[Any, str, Maker]:
    """Adapter, door and stand-in."""
    if isinstance(module, nn.MultiheadAttention):
        return torch_modules, "torch", InTorch
    packages = {base.__module__.partition(".")[0] for base in type(module).__mro__}
    if "transformers" in packages:
        return huggingface, "hf", in_hf
    if "timm" in packages:
        return timm_modules, "timm", InTimm
    if "x_transformers" in packages:
        return x_transformers_modules, "x_transformers", InXTransformers
    raise ConversionError(
        f"{type(module).__name__} is of no library that is read here (torch, transformers, timm, x-transformers); "
        "regard.convert.from_torch may read its weights"
    )


def _difference(adapter: Any, module: nn.Module, new: nn.Module) -> float:
    """Both called alike, with the arguments that the adapter gives; over queries that see a key.

    Raises:
        ConversionError: They differ, in numbers or in the form of their result.
    """
    theirs, ours = (_float32(copy.deepcopy(x).eval()) for x in (module, new))
    calls: list[tuple[Any, Any, Any]] = []
    handle = theirs.register_forward_hook(
        lambda m, given, named, out: calls.append((given, named, out)), with_kwargs=True
    )
    worst, allowed = 0.0, math.inf
    try:
        for case in Comparison(adapter, theirs, adapter.find(theirs, {})).cases:
            if case.context is not None and isinstance(new, InHuggingFace):
                continue  # stands in for self-attention only
            calls.clear()
            with torch.no_grad():
                adapter.run(theirs, case.query, case.context, case.attend)
                given, named, output = calls[-1]
                (right, parts), (mine, count) = first_of(output), first_of(ours(*given, **named))
            if parts != count:
                raise ConversionError(f"it returns {parts} things, and ours returns {count}")
            seen = case.attend.any(dim=2, keepdim=True)
            if mine.shape[:2] != seen.shape[:2]:  # time first
                seen = seen.transpose(0, 1)
            gap = (mine - right).abs().masked_fill(~seen, 0).amax().item()
            worst, allowed = (
                max(worst, math.inf if math.isnan(gap) else gap),
                allowance(right.abs().nan_to_num(0).amax().item()),
            )
            if worst > allowed:
                raise ConversionError(
                    f"called alike, it and ours differ by {worst:.2g} in the case {case.name!r} (allowed {allowed:.1g})"
                )
    finally:
        handle.remove()
    return worst


def _float32(module: nn.Module) -> nn.Module:
    small = any(p.dtype in (torch.float16, torch.bfloat16) for p in module.parameters())
    return module.float().cpu() if small else module.cpu()


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
    return (text.splitlines() or [type(error).__name__])[0]


def _nothing(model: nn.Module, left: dict[str, str]) -> str:
    name = type(model).__name__
    if not left:
        return (
            f"no attention module was found in {name}: no part of it has a class that is named so, or it is one itself"
        )
    reasons = "; ".join(f"{path}: {why}" for path, why in list(left.items())[:3])
    return f"none of the {len(left)} attention modules of {name} could be exchanged: {reasons}"
