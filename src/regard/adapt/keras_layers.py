"""Attention layers of Keras 3 (any backend): MultiHeadAttention and GroupedQueryAttention, or their weights by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.adapt.found import CASES, Facts, Found
from regard.adapt.kernels import flattened, matrices, shaped_like
from regard.core.errors import ConversionError, MissingExtraError
from regard.core.mask.band import sliding_window

_DENSE = {"q": "_query_dense", "k": "_key_dense", "v": "_value_dense", "out": "_output_dense"}


def keras() -> Any:
    """The package.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import keras
    except ImportError as error:
        raise MissingExtraError("this needs Keras 3; install it with: pip install 'regard[keras]'") from error
    return keras


def is_keras(model: Any) -> bool:
    """Whether it is a Keras layer or model; on the torch backend that is a torch module too."""
    return any(cls.__module__.split(".")[0] == "keras" for cls in type(model).__mro__)


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read a layer, what its get_weights() gives, or {"query": {"kernel": ..., "bias": ...}, ..., "attention_output": ...}."""
    if isinstance(module, list | tuple):
        module = _by_name(module)
    if isinstance(module, Mapping):
        arrays, layout = matrices(flattened(module, "the Keras weights"), "the Keras weights")
        return Found("keras weights", arrays, layout, Facts(), (), True)
    kind = type(module).__name__
    if not all(hasattr(module, name) for name in ("built", "get_config")) or "Attention" not in kind:
        raise ConversionError(f"a Keras MultiHeadAttention or GroupedQueryAttention was expected, got {kind}")
    if not module.built:
        raise ConversionError(
            f"the Keras layer {module.name!r} has no weights yet; call it once, or layer.build(query_shape, value_shape)"
        )
    if not hasattr(module, "_query_dense"):
        raise ConversionError(f"{kind} has no projections; MultiHeadAttention and GroupedQueryAttention are read")
    for option, what in (("_use_gate", "a gate"), ("use_gate", "a gate")):
        if getattr(module, option, False):
            raise ConversionError(f"the Keras layer {module.name!r} has {what}, which our layer does not have")
    arrays, layout = matrices(_kernels(module), f"the Keras layer {module.name!r}")
    if arrays["out"].shape[1] != arrays["q"].shape[0]:
        raise ConversionError(
            f"the Keras layer {module.name!r} reads {arrays['q'].shape[0]} channels and gives {arrays['out'].shape[1]}; "
            "our layer gives as many as it reads"
        )
    window = getattr(module, "_sliding_window", None) or getattr(module, "sliding_window", None)
    mask = None if window is None else sliding_window(window - 1, window - 1)
    dropout = float(getattr(module, "_dropout", None) or getattr(module, "dropout", None) or 0.0)
    return Found(f"keras.layers.{kind}", arrays, layout, Facts(mask=mask, dropout=dropout), CASES, True)


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E)."""
    ops = keras().ops
    # Keras multiplies its own mask in, and a band of the layer goes with it, so that handing it again changes nothing.
    given = [ops.convert_to_tensor(x.detach().cpu().numpy()) for x in (query, query if context is None else context)]
    mask = ops.convert_to_tensor(attend.numpy())
    output = module(given[0], given[1], attention_mask=mask, training=False)
    return torch.from_numpy(to_numpy(output))


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    shaped = shaped_like(arrays, _kernels(module))
    for role, name in _DENSE.items():
        dense = getattr(module, name)
        dense.kernel.assign(shaped[role])
        if dense.bias is not None:
            dense.bias.assign(shaped[f"{role}.bias"])


def _by_name(weights: list | tuple) -> dict[str, Any]:
    """The list of `get_weights()`: query, key, value and last projection, each kernel before its bias."""
    kinds = {4: ("kernel",), 8: ("kernel", "bias")}.get(len(weights))
    if kinds is None:
        raise ConversionError(
            f"a list of {len(weights)} arrays is not what get_weights() of a Keras attention gives: 4 kernels, or 4 kernels "
            "and 4 biases in turn"
        )
    names = [f"{part}/{kind}" for part in ("query", "key", "value", "attention_output") for kind in kinds]
    return dict(zip(names, weights))


def _kernels(module: Any) -> dict[str, np.ndarray]:
    arrays = {}
    for role, name in _DENSE.items():
        dense = getattr(module, name)
        arrays[role] = to_numpy(dense.kernel.value)
        if dense.bias is not None:
            arrays[f"{role}.bias"] = to_numpy(dense.bias.value)
    return arrays


def to_numpy(x: Any) -> np.ndarray:
    """A copy; of a torch tensor without Keras, whose way to numpy warns under numpy 2."""
    if isinstance(x, Tensor):
        return x.detach().cpu().numpy().copy()
    return np.array(keras().ops.convert_to_numpy(x))
