"""From what was read to our layer, and from our layer to what will be written."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from regard.adapt.found import Buckets, Facts, Found
from regard.adapt.layout import Linear, Projections, unpack
from regard.core.errors import ConversionError
from regard.core.mask.expression import Mask
from regard.core.position import Rotary, convert_pairing
from regard.nn.alibi_bias import AlibiBias
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.relative_bias import RelativeBias


def layer_of(found: Found) -> MultiHeadAttention:
    """Our layer with the weights that were found, in their dtype, on their device, in eval mode.

    Raises:
        ConversionError: Arrays that do not fit the number of heads or each other.
    """
    parts, facts, heads = unpack(found.arrays, found.layout), found.facts, found.layout.num_heads
    weight = parts.query.weight
    kv_heads = found.layout.kv_heads
    head_dim, value_dim = weight.shape[0] // heads, parts.value.weight.shape[0] // kv_heads
    embed_dim = weight.shape[1]
    _check_out(parts, embed_dim, heads * value_dim, found.source)
    biased = any(part is not None and part.bias is not None for part in parts)
    layer = MultiHeadAttention(
        embed_dim,
        heads,
        num_kv_heads=kv_heads,
        head_dim=(head_dim, value_dim),
        key_dim=parts.key.weight.shape[1],
        value_dim=parts.value.weight.shape[1],
        bias=biased,
        dropout=facts.dropout,
        position=facts.position,
        mask=facts.mask,
        attention_bias=_bias(facts, heads, weight),
        scale=None if facts.scale is None or abs(facts.scale * head_dim**0.5 - 1) < 1e-6 else facts.scale,
        softcap=facts.softcap,
        device=weight.device,
        dtype=weight.dtype,
    )
    last = parts.out or Linear(torch.eye(embed_dim).to(weight), None)
    fill(layer, Projections(parts.query, parts.key, parts.value, last))
    if facts.norms is not None:
        layer.q_norm, layer.k_norm = (_copy(norm, weight) for norm in facts.norms)
    return layer.eval()


def fill(layer: MultiHeadAttention, parts: Projections) -> None:
    """Copy the four matrices in; a bias that is not given is 0."""
    targets = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    with torch.no_grad():
        for target, part in zip(targets, parts, strict=True):
            if part is None:
                continue
            target.weight.copy_(part.weight)
            if target.bias is not None:
                target.bias.zero_() if part.bias is None else target.bias.copy_(part.bias)


def projections_of(layer: MultiHeadAttention) -> Projections:
    """The four matrices of our layer."""
    made = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    return Projections(*(Linear(p.weight.detach(), None if p.bias is None else p.bias.detach()) for p in made))


def facts_of(layer: MultiHeadAttention) -> Facts:
    """What besides the four projections decides our layer's output.

    Raises:
        ConversionError: A position or bias that no other framework's attention has.
    """
    bias, position = layer.attention_bias, layer.position
    if position is not None and not isinstance(position, Rotary):
        raise ConversionError(f"the layer's position is {position!r}; only Rotary has a counterpart elsewhere")
    if bias is not None and not isinstance(bias, AlibiBias | RelativeBias):
        raise ConversionError(f"the layer's attention_bias is {bias!r}; only ALiBi and T5's table have counterparts")
    buckets = Buckets(bias.table, bias.max_distance, bias.bidirectional) if isinstance(bias, RelativeBias) else None
    norms = None if layer.q_norm is None or layer.k_norm is None else (layer.q_norm, layer.k_norm)
    return Facts(
        mask=layer.mask,
        scale=layer.scale,
        softcap=layer.softcap,
        dropout=layer.dropout,
        position=position,
        alibi=isinstance(bias, AlibiBias),
        buckets=buckets,
        norms=norms,
    )


def with_pairing(layer: MultiHeadAttention, pairing: str) -> MultiHeadAttention:
    """The same function with the other pairing of rotary channels: query and key projections are reordered in place.

    Raises:
        ConversionError: The layer has no rotary positions.
    """
    rotary = layer.position
    if not isinstance(rotary, Rotary):
        raise ConversionError(f"pairing={pairing!r} is about rotary positions, and the layer has {rotary!r}")
    if rotary.pairing == pairing:
        return layer
    other = Rotary(rotary.head_dim, pairing=pairing, width=rotary.width, base=rotary.base, scaling=rotary.scaling)  # pyright: ignore
    with torch.no_grad():
        for projection, norm in ((layer.q_proj, layer.q_norm), (layer.k_proj, layer.k_norm)):
            tensors = [(projection.weight, -1), (projection.bias, -1)]
            tensors += [] if norm is None else [(parameter, 1) for parameter in norm.parameters()]
            for tensor, heads in tensors:
                if tensor is not None:
                    heads = tensor.shape[0] // layer.head_dim if heads < 0 else heads
                    tensor.copy_(
                        convert_pairing(
                            tensor.clone(), heads, source=rotary.pairing, target=other.pairing, width=rotary.width
                        )
                    )
    layer.position = other
    return layer


def own_mask(mask: Mask | None, queries: int, keys: int) -> Tensor:
    """(1, T, S), True = attend."""
    if mask is None:
        return torch.ones(1, queries, keys, dtype=torch.bool)
    return mask.materialise(queries, keys)[:, 0].expand(1, queries, keys)


def _bias(facts: Facts, heads: int, weight: Tensor) -> nn.Module | None:
    if facts.alibi:
        return AlibiBias(heads)
    if facts.buckets is None:
        return None
    table = facts.buckets.table.detach()
    bias = RelativeBias(
        heads,
        num_buckets=len(table),
        max_distance=facts.buckets.max_distance,
        bidirectional=facts.buckets.bidirectional,
        device=weight.device,
        dtype=table.dtype,
    )
    with torch.no_grad():
        bias.table.copy_(table)
    return bias


def _copy(norm: nn.Module, weight: Tensor) -> nn.Module:
    return copy.deepcopy(norm).to(weight)


def _check_out(parts: Projections, embed_dim: int, joined: int, source: str) -> None:
    gives = joined if parts.out is None else parts.out.weight.shape[0]
    if gives != embed_dim:
        what = "joined heads have" if parts.out is None else "last projection gives"
        raise ConversionError(
            f"{source} reads {embed_dim} channels and its {what} {gives}; our layer gives as many as it reads"
        )
