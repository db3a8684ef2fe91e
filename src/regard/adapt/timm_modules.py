"""Attention of timm: `Attention` (packed, concatenated) and what other modules of it look the same.

timm's Swin windows are read by `regard.convert`, for they are another layer than multi-head attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from regard.adapt.found import Facts, Found, store_in_place
from regard.adapt.names import find_arrays, parameters_of
from regard.adapt.torch_modules import find_state, guessed_layout
from regard.core.errors import ConversionError

_CASES = ("self", "padding", "causal", "causal and padding")


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read a timm attention, or the state dict of one."""
    if isinstance(module, Mapping):
        return find_state(module, said, "the timm state dict")
    if not isinstance(module, nn.Module) or not hasattr(module, "qkv"):
        raise ConversionError(f"a timm Attention with a packed qkv was expected, got {type(module).__name__}")
    source = f"timm {type(module).__name__}"
    for name, what in (("gate", "a gate on the output of each head"), ("norm", "a norm between heads and projection")):
        part = getattr(module, name, None)
        if part is not None and not isinstance(part, nn.Identity):
            raise ConversionError(f"{source} has {what} ({name}), which our layer does not have")
    arrays, _ = find_arrays(parameters_of(module), source)
    sizes = {"num_heads": module.num_heads, "head_dim": getattr(module, "head_dim", None)}
    layout = guessed_layout(arrays, said, source, sizes)
    rate: Any = getattr(module, "attn_drop", None)
    norms = [getattr(module, name, None) for name in ("q_norm", "k_norm")]
    kept = [part for part in norms if isinstance(part, nn.Module) and not isinstance(part, nn.Identity)]
    facts = Facts(dropout=0.0 if rate is None else float(rate.p), norms=(kept[0], kept[1]) if len(kept) == 2 else None)
    return Found(source, arrays, layout, facts, _CASES, True)


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E)."""
    return module(query, attn_mask=attend[:, None])


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    store_in_place(find(module, {}), arrays)
