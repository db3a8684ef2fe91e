"""Fused attention kernels and the fast paths of torch.nn: what each one's arguments mean, as a Site.

A kernel is known by its operator name; arguments are read by the operator's own schema, never re-derived, since "causal" is
aligned at the top left here and elsewhere at the bottom right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.call import Call
from regard.intercept.site import Site

FUSED = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
}
FUSED_BACKWARD = {f"{name}_backward" for name in FUSED}
NATIVE = {"_native_multi_head_attention", "_transformer_encoder_layer_fwd"}
SMALL = 1 << 20  # scores of one map up to which a mask is written out beside the call that has it
OPAQUE = {"_flash_attention_forward", "_efficient_attention_forward"}  # ragged calls: seen, not understood


def arguments(func: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The call's arguments by their names in the operator's schema, defaults filled in."""
    named = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    named.update({a.name: value for a, value in zip(func._schema.arguments, args)})
    return {**named, **kwargs}


def fused_site(name: str, given: dict[str, Any], out: Any, **seen) -> Site:
    """The site of one scaled-dot-product kernel: query (B, H, T, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv)."""
    query, key, value = given["query"], given["key"], given["value"]
    bias = given.get("attn_mask", given.get("attn_bias"))
    scale = given.get("scale")
    lse = out[1] if isinstance(out, (tuple, list)) and len(out) > 1 and out[1].numel() else None
    if lse is not None and lse.dim() == 3:
        lse = lse[..., : query.shape[-2]]  # some kernels pad their rows
        if lse.shape != query.shape[:-1]:
            lse = None
    return Site(
        kind="fused",
        kernel=f"aten::{name}",
        query=query,
        key=key,
        value=value,
        output=next(iter(out)) if isinstance(out, (tuple, list)) else out,
        lse=lse,
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        is_causal=bool(given.get("is_causal", False)),
        bias=bias,
        dropout=float(given.get("dropout_p", 0.0)),
        **seen,
    )


def whole_site(call: Call, backend: str, output: Tensor, /, **seen) -> Site:
    """The site of a whole call of `regard.attention`: the kernels that it was cut into say less than the call."""
    T, S = call.sizes[2:]
    site = Site(
        kind="fused",
        kernel=f"regard::attention ({backend})",
        query=call.query,
        key=call.key,
        value=call.value,
        output=output,
        scale=call.scale,
        bias=call.bias,
        dropout=call.dropout,
        **seen,
    )
    if call.mask is not None and T * S <= SMALL:
        attend = replace(call, _memo={}).attend()
        assert attend is not None
        site.hidden = ~attend
    site.asked = replace(call, **{n: getattr(call, n).detach() for n in ("query", "key", "value")}, _memo={})
    return site


def native_site(name: str, given: dict[str, Any], out: Any, **seen) -> Site:
    """The site of a torch.nn fast path: q, k and v are projected again from its input, outside the run.

    Nested inputs are padded, and the keys past each length are hidden.
    """
    layer = name == "_transformer_encoder_layer_fwd"
    x = given["src"] if layer else given["query"]
    key, value = (x, x) if layer else (given["key"], given["value"])
    heads = given["num_heads"] if layer else given["num_head"]
    (x, lengths), (key, key_lengths), (value, _) = _padded(x), _padded(key), _padded(value)
    if layer and given["norm_first"]:
        norm = (given["norm_weight_1"].shape, given["norm_weight_1"], given["norm_bias_1"], given["eps"])
        x = key = value = F.layer_norm(x, *norm)
    parts = [
        _split(F.linear(t, w, b), heads)
        for t, w, b in zip((x, key, value), given["qkv_weight"].chunk(3), given["qkv_bias"].chunk(3))
    ]
    hidden = _hidden(given["mask"], given["mask_type"], parts[0].shape[0], heads)
    if key_lengths is not None:
        past = torch.arange(key.shape[1], device=key.device)[None, :] >= key_lengths[:, None]
        hidden = past[:, None, None, :] if hidden is None else hidden | past[:, None, None, :]
    return Site(
        kind="native_mha",
        kernel=f"aten::{name}" + (" (nested)" if lengths is not None else ""),
        query=parts[0],
        key=parts[1],
        value=parts[2],
        hidden=hidden,
        scale=parts[0].shape[-1] ** -0.5,
        **seen,
    )


def _padded(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """(B, T, E) and the lengths (B,) of a nested tensor; lengths None for a plain one."""
    if not x.is_nested:
        return x, None
    rows = [row.clone() for row in x.unbind()]
    lengths = torch.tensor([len(r) for r in rows], device=rows[0].device)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths


def _split(x: Tensor, heads: int) -> Tensor:
    """(B, T, E) -> (B, H, T, E / H)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _hidden(mask: Tensor | None, kind: int | None, batch: int, heads: int) -> Tensor | None:
    """True where hidden, broadcastable to (B, H, T, S). kind: 0 (T, S), 1 (B, S) padding, 2 (B, H, T, S)."""
    if mask is None:
        return None
    mask = mask if mask.dtype == torch.bool else mask == -torch.inf
    if kind == 1 or (kind is None and mask.dim() == 2 and mask.shape[0] == batch and mask.shape[0] != mask.shape[1]):
        return mask[:, None, None, :]
    if mask.dim() == 3:
        return mask.reshape(batch, heads, *mask.shape[-2:]) if mask.shape[0] == batch * heads else mask[:, None]
    return mask
