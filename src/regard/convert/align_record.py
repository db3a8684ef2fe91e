"""What a model computes, module by module, in the order in which the modules finish: torch modules and Keras layers.

A step is one call of a module that computes by itself (a projection, a norm, an attention, an activation); containers are
left out, and so is dropout, which does nothing in eval mode. A Keras layer with an activation inside makes two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.adapt.keras_layers import is_keras
from regard.core.errors import ConversionError

_KINDS = (  # the first that stands in the name of the class decides
    ("attention", ("attention", "attn")),
    ("norm", ("norm",)),
    ("embedding", ("embedding",)),
    ("linear", ("linear", "dense", "conv")),
    ("activation", ("relu", "gelu", "silu", "swish", "tanh", "sigmoid", "softmax", "activation", "elu")),
)
_NOTHING = ("dropout", "identity", "inputlayer", "flatten")


@dataclass
class Step:
    """One call of one module.

    Attributes:
        name: Its path in the model.
        kind: "attention", "linear", "norm", "embedding" or "activation".
        module: It.
        inputs: The tensors it was given, by position.
        named: What else it was given.
        output: (batch, ..., channels), float64; heads that have an axis are joined.
    """

    name: str
    kind: str
    module: Any
    inputs: list[Tensor]
    output: Tensor
    named: dict[str, Any] = field(default_factory=dict)


@dataclass
class Recording:
    """A run of a model: its steps, its inputs and its output, all float64."""

    steps: list[Step]
    inputs: list[Tensor]
    output: Tensor


def record(model: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> Recording:
    """Run a model once in eval mode, without gradients, and note every step. The model is left as it was.

    Raises:
        ConversionError: It is neither a torch module nor a Keras layer, or cannot be run on these inputs.
    """
    steps: list[Step] = []
    if is_keras(model):
        several = len(inputs) > 1 and isinstance(
            getattr(model, "inputs", None), list
        )  # a functional model wants a list
        given = [list(inputs)] if several else list(inputs)
        watch, call = _keras_watch(model, steps), lambda: model(*given, training=False, **named)
    elif isinstance(model, nn.Module):
        watch, call = _torch_watch(model, steps), lambda: model(*inputs, **named)
    else:
        raise ConversionError(f"a torch module or a Keras model was expected, got {type(model).__name__}")
    with watch, torch.no_grad():
        try:
            output = call()
        except Exception as error:  # somebody else's code may raise anything
            raise ConversionError(
                f"{type(model).__name__} could not be run on {describe(inputs, named)}: {type(error).__name__}: {error}"
            ) from error
    return Recording(steps, [x for x in (_wide(x) for x in inputs) if x is not None], first(output))


def first(output: Any) -> Tensor:
    """The first tensor of an output, float64."""
    while isinstance(output, tuple | list):
        output = output[0]
    if isinstance(output, Mapping) or hasattr(output, "to_tuple"):
        output = next(iter(output.values()))
    wide = _wide(output)
    if wide is None:
        raise ConversionError(f"the output is no tensor but {type(output).__name__}")
    return wide


def describe(inputs: Sequence[Any], named: Mapping[str, Any]) -> str:
    """The shapes of inputs, for messages."""
    shown = [str(tuple(getattr(x, "shape", ()))) for x in inputs]
    shown += [f"{name}={tuple(getattr(x, 'shape', ()))}" for name, x in named.items()]
    return ", ".join(shown)


def kind_of(module: Any) -> str | None:
    """What a module does, by the name of its class; None for containers and what does nothing."""
    name = type(module).__name__.lower()
    if any(word in name for word in _NOTHING):
        return None
    return next((kind for kind, words in _KINDS if any(word in name for word in words)), None)


@contextmanager
def _torch_watch(model: nn.Module, steps: list[Step]) -> Iterator[None]:
    was = {part: part.training for part in model.modules()}
    handles = []

    def note(name: str, kind: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: tuple, named: dict, output: Any) -> None:
            _note(steps, name, kind, module, given, named, output)

        return hook

    for name, part in model.named_modules():
        kind = kind_of(part)
        if kind is not None and not _wraps(part, kind):
            handles.append(part.register_forward_hook(note(name, kind), with_kwargs=True))
    model.eval()
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for part, training in was.items():
            part.training = training


@contextmanager
def _keras_watch(model: Any, steps: list[Step]) -> Iterator[None]:
    with ExitStack() as stack:
        for layer in model._flatten_layers(include_self=True):
            kind = kind_of(layer)
            if kind is None:
                continue
            name = (getattr(layer, "path", None) or "").partition("/")[2] or layer.name
            activation = getattr(layer, "activation", None)
            inner = kind == "linear" and activation is not None and getattr(activation, "__name__", "") != "linear"
            if inner and activation is not None:
                stack.enter_context(_replaced(layer, "activation", _activation(steps, layer, name, activation)))
            stack.enter_context(_replaced(layer, "call", _call(steps, layer, name, kind, layer.call, inner)))
        yield


def _call(steps: list[Step], layer: Any, name: str, kind: str, call: Callable, inner: bool) -> Callable:
    def watched(*given: Any, **named: Any) -> Any:
        place = len(steps)
        output = call(*given, **named)
        if not inner:
            _note(steps, name, kind, layer, given, named, output)
        elif len(steps) > place:  # the activation was noted; what it was given is what the matrix made
            activation = steps[-1]
            steps.insert(-1, Step(name, kind, layer, _tensors(given), activation.inputs[0]))
        return output

    return watched


def _activation(steps: list[Step], layer: Any, name: str, activation: Callable) -> Callable:
    def watched(x: Any) -> Any:
        output = activation(x)
        _note(steps, f"{name}.activation", "activation", activation, (x,), {}, output)
        return output

    watched.__name__ = getattr(activation, "__name__", "activation")
    return watched


@contextmanager
def _replaced(layer: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of one layer for a while, past Keras's own bookkeeping."""
    had = name in vars(layer)
    before = vars(layer).get(name)
    object.__setattr__(layer, name, value)
    try:
        yield
    finally:
        if had:
            object.__setattr__(layer, name, before)
        else:
            object.__delattr__(layer, name)


def _wraps(part: nn.Module, kind: str) -> bool:
    """Whether it only holds one that does the same, as BertAttention holds BertSelfAttention; the inner one is noted."""
    return kind == "attention" and any(kind_of(inner) == "attention" for inner in part.modules() if inner is not part)


def _note(steps: list[Step], name: str, kind: str, module: Any, given: Any, named: dict, output: Any) -> None:
    made = first(output)
    if kind in ("linear", "attention") and made.ndim > 3:
        made = made.flatten(2)
    kept = {key: x for key, x in named.items() if x is not None}
    inputs = _tensors(given)
    if not inputs:
        inputs = _tensors(named.values())
    steps.append(Step(name or type(module).__name__, kind, module, inputs, made, kept))


def _tensors(given: Any) -> list[Tensor]:
    return [x for x in (_wide(x) for x in given) if x is not None]


def _wide(x: Any) -> Tensor | None:
    """A float64 copy of a float tensor, an integer one as it is; None for what is no tensor."""
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return x.double() if x.dtype.is_floating_point else x.clone()
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        array = torch.from_numpy(np.array(x))
        return array.double() if array.dtype.is_floating_point else array
    return None
