"""Attention of x-transformers: separate projections without biases, and key heads in tiled order.

Its query head i reads key head i % G, where everybody else's reads i // (H / G): the weights fit either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from regard.adapt.found import CASES, Facts, Found, store_in_place
from regard.adapt.layout import Layout
from regard.adapt.names import find_arrays, parameters_of
from regard.core.errors import ConversionError
from regard.core.mask.band import causal, sliding_window

_PLAIN = (  # options that change the result in a way our layer does not have: must be off
    *("to_latent_q", "to_latent_kv", "to_v_gate", "to_output_gate", "to_v_head_gate"),
    *("q_rmsnorm", "k_rmsnorm", "value_rmsnorm", "qk_norm", "head_scale", "laser", "orthog_projected_values"),
    *("data_dependent_alibi", "rel_proj_pos_bias", "hybrid_module"),
)


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read an `x_transformers.Attention`."""
    if not isinstance(module, nn.Module) or not all(hasattr(module, f"to_{x}") for x in "qkv"):
        raise ConversionError(f"an x_transformers Attention was expected, got {type(module).__name__}")
    options: Any = module
    on = [name for name in _PLAIN if getattr(module, name, None) not in (None, False)]
    if options.num_mem_kv:
        on.append("num_mem_kv")
    if on:
        raise ConversionError(f"this x_transformers Attention uses {', '.join(on)}, which our layer does not have")
    if isinstance(module.to_out, nn.Sequential):
        raise ConversionError("this x_transformers Attention ends in a gate (on_attn), which our layer does not have")
    arrays, _ = find_arrays(parameters_of(module), "x_transformers Attention")
    attend = options.attend
    mask = causal() if options.causal else None
    if options.max_attend_past is not None:
        window = sliding_window(left=options.max_attend_past)  # that many before it, besides itself
        mask = window if mask is None else mask & window
    softcap = attend.logit_softclamp_value if getattr(attend, "softclamp_logits", False) else None
    facts = Facts(mask=mask, scale=options.scale, softcap=softcap, dropout=attend.dropout)
    layout = Layout(options.heads, options.kv_heads, group_order="tiled")
    return Found("x_transformers Attention", arrays, layout, facts, CASES, True)


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E)."""
    return module(query, context=context, attn_mask=attend[:, None], causal=False)


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    store_in_place(find(module, {}), arrays)
