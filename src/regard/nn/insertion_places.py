"""Where a gate may go in a convolutional network: found by running a weightless copy once and watching it.

A residual addition is an addition of two maps that both come from the same input of the module in which it happens; its branch
is the operand behind more convolutions. So block classes need no known names, and a neck that adds maps of several inputs is
left alone. The copy lives on torch's "meta" device: it computes shapes and no values.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import TargetError

CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)
NORMS = (nn.BatchNorm2d, nn.SyncBatchNorm, nn.InstanceNorm2d, nn.GroupNorm, nn.LayerNorm)  # a layer, whatever it holds
USUAL_SIDES = (224, 32, 28, 64, 96, 128, 256, 299, 384, 512)  # tried in turn when no example is given
_ADDITIONS = ("add", "add_", "__add__", "__radd__", "__iadd__")


@dataclass(frozen=True)
class Origin:
    """Where a map comes from: how many convolutions ago, after which layers, and from which other tensors."""

    convolutions: int = 0
    layers: tuple[str, ...] = ()
    ancestors: frozenset[int] = frozenset()


@dataclass
class Watched:
    """What one forward pass showed.

    Attributes:
        shapes: Per module, the shape of its output where that is one map.
        calls: Per module, how often it ran.
        branches: For each residual addition in order: the layers of the branch, from its last convolution on.
        groups: For each convolution in order: it and the layers that keep its shape and directly follow.
        flops: Of convolutions and matrix products, two per multiplication with addition.
        example: The shape of the input.
    """

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    branches: list[list[str]] = field(default_factory=list)
    groups: list[list[str]] = field(default_factory=list)
    flops: int = 0
    example: tuple[int, ...] = ()

    def once(self, layers: Sequence[str]) -> str | None:
        """The last of these layers that runs once in a forward pass, so that a gate behind it acts once."""
        return next((name for name in reversed(layers) if self.calls[name] == 1), None)


def watch(model: nn.Module, example: Tensor | None = None) -> Watched:
    """Run a copy of the model without weights and note its maps.

    Args:
        model: Takes one image tensor.
        example: An input; None: one image with the channels of the first convolution, of the first usual size that runs.

    Raises:
        TargetError: No convolution, or a forward pass that fails.
    """
    first = next((module for module in model.modules() if isinstance(module, CONVOLUTIONS)), None)
    if first is None:
        raise TargetError(f"{type(model).__name__} has no 2-D convolution, so there are no channels to gate")
    ghost = without_values(model)
    if example is not None:
        return _watch_once(ghost, tuple(example.shape), example.dtype)
    dtype = next(ghost.parameters()).dtype
    reason = None
    for side in USUAL_SIDES:
        try:
            return _watch_once(ghost, (1, first.in_channels, side, side), dtype)
        except TargetError as error:
            reason = reason or error
    raise TargetError(f"{reason}; give example= with an input that the model takes")


def without_values(model: nn.Module) -> nn.Module:
    """A copy in eval mode whose parameters and buffers have shapes only; the model's memory is not copied."""
    memo: dict[int, object] = {}
    for value in model.parameters():
        memo[id(value)] = nn.Parameter(torch.empty_like(value, device="meta"), requires_grad=False)
    for value in model.buffers():
        memo[id(value)] = torch.empty_like(value, device="meta")
    return copy.deepcopy(model, memo).eval()


def _watch_once(ghost: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> Watched:
    watched = Watched(example=shape)
    watcher = _Watcher(ghost, watched)
    image = torch.empty(shape, dtype=dtype, device="meta")
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter, watcher:
            ghost(image)
    except Exception as error:  # whatever the model raises is its answer
        size = " x ".join(str(n) for n in shape)
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TargetError(f"{type(ghost).__name__} does not run on an input of {size}: {text}") from error
    finally:
        watcher.remove()
    watched.flops = counter.get_total_flops()
    return watched


class _Watcher(TorchFunctionMode):
    """Follows maps through functions (their origin) and modules (their names)."""

    def __init__(self, ghost: nn.Module, watched: Watched) -> None:
        super().__init__()
        self.watched = watched
        self.origins: dict[int, Origin] = {}
        self.alive: list[Tensor] = []  # an id is only a name while its tensor lives
        self.inputs: list[frozenset[int]] = []
        self.names = {module: name for name, module in ghost.named_modules()}
        self.handles = []
        for module in self.names:
            self.handles.append(module.register_forward_pre_hook(self._enter))
            self.handles.append(module.register_forward_hook(self._leave))

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        given = [value for value in _tensors((args, kwargs or {})) if value.ndim == 4]
        before = [self._origin(value) for value in given]
        name = getattr(function, "__name__", "")
        if name in _ADDITIONS and len(given) == 2 and given[0].shape == given[1].shape:
            self._addition(given, before)
        result = function(*args, **(kwargs or {}))
        made = [value for value in _tensors(result) if value.ndim == 4]
        if given and made:
            convolutions = max(origin.convolutions for origin in before) + (name in ("conv2d", "conv_transpose2d"))
            ancestors = frozenset().union(*(o.ancestors for o in before), (id(value) for value in given))
            apart = len(given) > 1 and name in _ADDITIONS
            for value in made:
                alike = [o for v, o in zip(given, before) if v.shape[2:] == value.shape[2:]] or before
                layers = max(alike, key=lambda origin: origin.convolutions).layers  # of the map, not of its small gate
                self._note(value, Origin(convolutions, () if apart else layers, ancestors))
        return result

    def _enter(self, module: nn.Module, args) -> None:
        maps = [value for value in _tensors(args) if value.ndim == 4]
        self.inputs.append(frozenset(id(value) for value in maps))
        self.alive.extend(maps)

    def _leave(self, module: nn.Module, args, output) -> None:
        self.inputs.pop()
        name = self.names[module]
        self.watched.calls[name] += 1
        if not isinstance(output, Tensor) or output.ndim != 4:
            return
        self.watched.shapes[name] = tuple(output.shape)
        inner = any(True for _ in module.children()) and not isinstance(module, NORMS)
        if isinstance(module, nn.Identity) or inner:
            return
        origin = self._origin(output)
        before = () if isinstance(module, CONVOLUTIONS) else origin.layers
        self._note(output, Origin(origin.convolutions, (*before, name), origin.ancestors))
        if isinstance(module, CONVOLUTIONS):
            self.watched.groups.append([name])
        elif origin.layers and output.shape == args[0].shape:
            self._extend(origin.layers, name)

    def _extend(self, layers: tuple[str, ...], name: str) -> None:
        """Put a layer into the group of the convolution that it directly follows, with the same map."""
        for group in self.watched.groups:
            if group == list(layers) and self.watched.shapes[group[-1]] == self.watched.shapes[name]:
                group.append(name)

    def _addition(self, given: list[Tensor], before: list[Origin]) -> None:
        inputs = self.inputs[-1] if self.inputs else frozenset()
        first, second = (inputs & (o.ancestors | {id(value)}) for value, o in zip(given, before))
        short, long = sorted(before, key=lambda origin: origin.convolutions)
        if first and first == second and short.convolutions < long.convolutions and long.layers:
            self.watched.branches.append(list(long.layers))

    def _origin(self, value: Tensor) -> Origin:
        return self.origins.get(id(value), Origin())

    def _note(self, value: Tensor, origin: Origin) -> None:
        self.origins[id(value)] = origin
        self.alive.append(value)


def _tensors(value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [found for entry in value.values() for found in _tensors(entry)]
    if isinstance(value, tuple | list):
        return [found for entry in value for found in _tensors(entry)]
    return []
