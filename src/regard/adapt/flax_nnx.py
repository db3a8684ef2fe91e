"""Attention of Flax: `nnx.MultiHeadAttention`, or parameters by name (nnx and linen use the same ones)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.adapt.found import CASES, Facts, Found
from regard.adapt.kernels import flattened, matrices, shaped_like
from regard.core.errors import ConversionError

_PARTS = {"q": "query", "k": "key", "v": "value", "out": "out"}


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read a module, or a mapping such as {"query": {"kernel": ..., "bias": ...}, ..., "out": ...}."""
    if isinstance(module, Mapping):
        arrays, layout = matrices(flattened(module, "the Flax parameters"), "the Flax parameters")
        return Found("flax parameters", arrays, layout, Facts(), (), True)
    kind = type(module).__name__
    if not all(hasattr(module, part) for part in _PARTS.values()):
        raise ConversionError(f"a flax nnx.MultiHeadAttention was expected, got {kind}")
    if getattr(module, "query_ln", None) is not None:
        raise ConversionError(f"{kind} normalises queries and keys (normalize_qk), which from_flax does not read")
    arrays, layout = matrices(_kernels(module), f"the Flax {kind}")
    facts = Facts(dropout=float(getattr(module, "dropout_rate", 0.0)))
    return Found(f"flax.nnx.{kind}", arrays, layout, facts, CASES, True)


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E)."""
    import jax.numpy as jnp

    key = query if context is None else context
    given = [jnp.asarray(x.detach().cpu().numpy()) for x in (query, key)]
    output = module(*given, mask=jnp.asarray(attend[:, None].numpy()), deterministic=True, decode=False)
    return torch.from_numpy(np.array(output))


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    import jax.numpy as jnp

    shaped = shaped_like(arrays, _kernels(module))
    for role, name in _PARTS.items():
        part = getattr(module, name)
        part.kernel.value = jnp.asarray(shaped[role])
        if part.bias is not None:
            part.bias.value = jnp.asarray(shaped[f"{role}.bias"])


def _kernels(module: Any) -> dict[str, np.ndarray]:
    arrays = {}
    for role, name in _PARTS.items():
        part = getattr(module, name)
        arrays[role] = np.asarray(part.kernel[...])
        if part.bias is not None:
            arrays[f"{role}.bias"] = np.asarray(part.bias[...])
    return arrays
