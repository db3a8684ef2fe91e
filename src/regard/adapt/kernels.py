"""Kernels with an axis of heads, as Keras and Flax keep them: (E, H, D) in, (H, Dv, E) out, to matrices and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.adapt.layout import Layout
from regard.adapt.names import known_names
from regard.core.errors import ConversionError

_ROLE = {"query": "q", "key": "k", "value": "v", "out": "out", "attention_output": "out", "output": "out"}


def flattened(weights: Mapping[str, Any], source: str) -> dict[str, np.ndarray]:
    """Nested or flat names to "q", "q.bias", "out" ...: {"query": {"kernel": x}}, {"query/kernel": x}, {"query.kernel": x}.

    Raises:
        ConversionError: A kernel is missing, or there is something else.
    """
    flat: dict[str, Any] = {}

    def walk(prefix: tuple[str, ...], value: Any) -> None:
        if isinstance(value, Mapping):
            for name, below in value.items():
                walk((*prefix, *str(name).partition(":")[0].replace("/", ".").split(".")), below)  # TensorFlow's ":0"
        else:
            flat[".".join(prefix)] = value

    walk((), weights)
    arrays: dict[str, np.ndarray] = {}
    extra = []
    for path, value in flat.items():
        words = path.split(".")
        role = _ROLE.get(words[-2]) if len(words) > 1 else None
        if role is None or words[-1] not in ("kernel", "bias"):
            extra.append(path)
        else:
            arrays[role if words[-1] == "kernel" else f"{role}.bias"] = np.asarray(value)
    missing = [
        name for name, role in _ROLE.items() if role not in arrays and name not in ("attention_output", "output")
    ]
    if missing:
        raise ConversionError(f"{source}: no kernel for {' and '.join(missing)} among {known_names(flat)}")
    if extra:
        raise ConversionError(
            f"{source}: {known_names(extra)} is no part of an attention; give one attention's weights alone"
        )
    return arrays


def matrices(arrays: Mapping[str, np.ndarray], source: str) -> tuple[dict[str, Tensor], Layout]:
    """Two axes each, (in, out), and the layout; the heads are read from the shapes.

    Raises:
        ConversionError: A kernel without an axis of heads, or kernels whose axes contradict each other.
    """
    for name, axes in (("q", "(E, H, D)"), ("k", "(E, G, D)"), ("v", "(E, G, Dv)"), ("out", "(H, Dv, E)")):
        if arrays[name].ndim != 3:
            raise ConversionError(f"{source}: the kernel {name!r} has shape {arrays[name].shape}; {axes} was expected")
    heads, kv_heads = arrays["q"].shape[1], arrays["k"].shape[1]
    if arrays["v"].shape[1] != kv_heads or arrays["out"].shape[0] != heads:
        raise ConversionError(
            f"{source}: {heads} query, {kv_heads} key, {arrays['v'].shape[1]} value heads, and {arrays['out'].shape[0]} "
            "in the last projection; keys and values need equally many, queries and the last projection too"
        )
    out = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(np.array(array))  # a copy, writable
        keep = 1 if name.endswith(".bias") else 2
        if name == "out":
            tensor = tensor.flatten(0, 1)
        out[name] = tensor.flatten(keep - 1) if name != "out.bias" else tensor
    return out, Layout(heads, kv_heads, arrays["q"].shape[2], transposed=True)


def shaped_like(arrays: Mapping[str, Tensor], kernels: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The matrices in the shapes of these kernels."""
    return {name: array.detach().cpu().numpy().reshape(kernels[name].shape) for name, array in arrays.items()}
