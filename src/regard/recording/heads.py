"""Give every site the axes (B, H, T, ·): folded heads are unfolded, windows count as samples, grouped heads are unpacked.

Axes: B samples, H query heads, Hkv key heads, T queries, S keys, D channels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.intercept.site import Site

HEAD_COUNTS = (
    "num_heads",
    "n_heads",
    "num_attention_heads",
    "n_head",
    "nhead",
    "heads",
    "nheads",
    "num_attention_head",
    "h",
)


@dataclass
class Attention:
    """One site in four axes. `weights` is None for kernels that keep none; then q and k say everything."""

    site: Site
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    query: Tensor | None
    key: Tensor | None
    value: Tensor | None
    output: Tensor | None
    weights: Tensor | None
    kind: str  # "self" | "cross" | "channel"
    notes: list[str] = field(default_factory=list)


def four_axes(site: Site) -> Attention | None:
    """The site with axes (B, H, T, ·), or None where its shape is unknown."""
    shape = site.shape
    if shape is None:
        return None
    notes: list[str] = []
    lead, (T, S) = shape[:-2], shape[-2:]
    batch, heads = _lead(site, lead, notes)
    weights = _weights(site, notes)
    parts = {name: _shaped(getattr(site, name), batch, heads, lead) for name in ("query", "key", "value", "output")}
    kv_heads = parts["key"].shape[1] if parts["key"] is not None else heads
    for name, learned in (("keys", site.learned_keys), ("queries", site.learned_queries)):
        if learned:
            notes.append(f"the {name} are parameters, not computed from the input")
    packed = _packed_groups(site, heads, T, S)
    if packed and weights is None and parts["query"] is not None:
        query, output = parts["query"], parts["output"]
        parts["query"] = query.reshape(batch, heads * T, 1, query.shape[-1])
        parts["output"] = None if output is None else output.reshape(batch, heads * T, 1, output.shape[-1])
        kv_heads, heads, T = heads, heads * T, 1
        notes.append("grouped query heads were folded into the query axis by the library, and are heads again here")
    weights = None if weights is None else _shaped(weights, batch, heads, lead)
    kind = _kind(site, T, S)
    return Attention(site, batch, heads, kv_heads, T, S, **parts, weights=weights, kind=kind, notes=notes)


def _lead(site: Site, lead: tuple[int, ...], notes: list[str]) -> tuple[int, int]:
    """(samples, heads) of the leading axes."""
    if len(lead) == 2:
        return lead[0], lead[1]
    if len(lead) > 2:
        notes.append(f"leading axes {lead} are read as {prod(lead[:-1])} samples of {lead[-1]} heads")
        return prod(lead[:-1]), lead[-1]
    if not lead:
        return 1, 1
    folded, heads = lead[0], head_count(site.innermost)
    if heads and folded % heads == 0 and (site.batch is None or folded != site.batch):
        return folded // heads, heads
    if site.batch and folded != site.batch and folded % site.batch == 0:
        notes.append(f"the leading axis of {folded} is read as {site.batch} samples of {folded // site.batch} heads")
        return site.batch, folded // site.batch
    return folded, 1


def head_count(module: Any) -> int | None:
    """The number of heads that a module says it has."""
    for owner in (module, getattr(module, "config", None)):
        for name in HEAD_COUNTS:
            value = getattr(owner, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _packed_groups(site: Site, heads: int, T: int, S: int) -> bool:
    """Whether a decode step has its query heads folded into the query axis: (B, Hkv, H / Hkv, D) for one token."""
    groups = getattr(site.innermost, "num_key_value_groups", None)
    kv_heads = getattr(getattr(site.innermost, "config", None), "num_key_value_heads", None)
    return (
        site.kind == "fused"
        and isinstance(groups, int)
        and groups > 1
        and groups == T
        and heads == kv_heads
        and S >= T
        and _one_token(site)
    )


def _one_token(site: Site) -> bool:
    """Whether the module was given one token: its input (B, 1, E), where that is known."""
    return len(site.input_shape) != 3 or site.input_shape[1] == 1


def _weights(site: Site, notes: list[str]) -> Tensor | None:
    """What a kernel-free site weighs the values with: before dropout where nothing else was done, else what was used."""
    if site.kind in ("fused", "native_mha"):
        if site.dropout:
            notes.append(f"dropout of {site.dropout:g} was on; the weights are those before it")
        return None
    done = [s.op for s in site.after if s.op != "dropout"]
    if site.dropout:
        notes.append(f"dropout of {site.dropout:g} was on; the weights are those {'after' if done else 'before'} it")
    if done:
        notes.append(
            f"between the softmax and the values: {', '.join(dict.fromkeys(done))}; the weights are those after it"
        )
    made = None if done or site.weights_made is None else site.weights_made
    used = made if made is not None else site.weights_used
    if used is not None and site.kind == "exp" and site.softmax_axis == -1 and made is None and not done:
        used = used / used.sum(-1, keepdim=True)
        notes.append("the weights were divided by their sum after they met the values; they are divided here")
    return used


def _shaped(x: Tensor | None, batch: int, heads: int, lead: tuple[int, ...]) -> Tensor | None:
    """(B, H, ·, ·): leading axes of the site's layout; sizes of 1 mean shared."""
    if x is None:
        return None
    if len(lead) == 2:
        return x
    if len(lead) > 2:
        return x.expand(*lead, *x.shape[-2:]).reshape(batch, heads, *x.shape[-2:])
    if not lead:
        return x.reshape(1, 1, *x.shape[-2:])
    return x.expand(batch * heads, *x.shape[-2:]).reshape(batch, heads, *x.shape[-2:])


def _kind(site: Site, T: int, S: int) -> str:
    """Self, cross or channel attention, by names, sizes and the module's input."""
    path = site.path.lower()
    if site.query is not None and T == S and len(site.input_shape) in (3, 4):
        tokens = site.input_shape[1] if len(site.input_shape) == 3 else prod(site.input_shape[2:])
        if site.query.shape[-1] == tokens != T:
            return "channel"
    if any(word in path for word in ("cross", "encdec", "encoder_attn", "multihead_attn")):
        return "cross"
    return "self" if T == S or (T < S and site.query is not None and _grows(site, S)) else "cross"


def _grows(site: Site, S: int) -> bool:
    """Whether fewer queries than keys are the last tokens of one sequence: a cache, not a second sequence."""
    kwargs = getattr(site.innermost, "is_causal", None)
    return bool(kwargs) or (len(site.input_shape) == 3 and site.input_shape[1] < S and _has_cache_name(site))


def _has_cache_name(site: Site) -> bool:
    return "self" in site.path.lower() or hasattr(site.innermost, "layer_idx")


def output_projection(attention: Attention) -> Tensor | None:
    """W_O, (E, H * Dv), of the module that ran the attention, by the usual names."""
    owner = attention.site.innermost
    if attention.site.kind == "native_mha":  # the fast path of an encoder layer is one operator of the whole layer
        owner = getattr(owner, "self_attn", owner)
    for name in ("o_proj", "out_proj", "proj", "c_proj", "to_out", "dense", "o"):
        layer = getattr(owner, name, None)
        layer = layer[0] if isinstance(layer, torch.nn.Sequential) and len(layer) else layer
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() == 2:
            return weight.detach().T.cpu() if type(layer).__name__ == "Conv1D" else weight.detach().cpu()
    return None
