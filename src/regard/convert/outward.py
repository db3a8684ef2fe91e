"""From our layer to theirs: to_torch, to_hf, to_timm, to_x_transformers, to_keras, to_flax; each verified before it is returned.

What the other side has no place for (positions, a cap, a scale, norms) is refused by name. A mask is no weight: torch,
timm, Keras and Flax want it at every call.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from regard.adapt import (
    flax_nnx,
    huggingface,
    keras_layers,
    timm_modules,
    torch_modules,
    x_transformers_modules as x_modules,
)
from regard.adapt.found import Found
from regard.adapt.layout import Linear, Projections, pack
from regard.convert.build import facts_of, projections_of, with_pairing
from regard.convert.doors import remember
from regard.convert.verify import Comparison, Conversion
from regard.core.errors import ConversionError, MissingExtraError
from regard.core.position import Rotary
from regard.nn.multi_head import MultiHeadAttention


def to_torch(layer: MultiHeadAttention, *, into: nn.Module | None = None, verify: bool = True) -> nn.Module:
    """`torch.nn.MultiheadAttention` (batch_first) with our weights, or `into` filled with them.

    Args:
        into: A module of yours with projections under names we know; None: a new `torch.nn.MultiheadAttention`.
        verify: Run both on random input, and refuse where they differ.

    Fewer key heads are written out: each key head is repeated for the query heads that read it.

    Raises:
        ConversionError: The layer has what the other side has no place for, or the two differ.
    """
    if into is None:
        _only_weights(layer, "torch.nn.MultiheadAttention")
        _whole_heads(layer, "torch.nn.MultiheadAttention")
        into = nn.MultiheadAttention(
            layer.embed_dim,
            layer.num_heads,
            dropout=layer.dropout,
            bias=layer.q_proj.bias is not None,
            kdim=layer.key_dim,
            vdim=layer.value_dim,
            batch_first=True,
            device=layer.q_proj.weight.device,
            dtype=layer.q_proj.weight.dtype,
        ).eval()
    return _write(layer, torch_modules, into, verify)


def to_hf(layer: MultiHeadAttention, into: nn.Module, *, verify: bool = True) -> nn.Module:
    """Fill an attention module of Hugging Face transformers; its config says what it is, so it must be made first.

    Rotary channels are reordered where the pairings differ.
    """
    theirs = huggingface.find(into, {}).facts
    mine = facts_of(layer)
    if (theirs.position is None) != (mine.position is None):
        raise ConversionError(f"the layer's position is {mine.position!r} and the target's {theirs.position!r}")
    if isinstance(theirs.position, Rotary) and isinstance(mine.position, Rotary):
        layer = with_pairing(copy.deepcopy(layer), theirs.position.pairing)
    for ours_norm, norm in zip(facts_of(layer).norms or (), theirs.norms or (), strict=True):
        norm.load_state_dict(ours_norm.state_dict())
    if mine.buckets is not None and theirs.buckets is not None:
        with torch.no_grad():
            theirs.buckets.table.copy_(mine.buckets.table)
    return _write(layer, huggingface, into, verify)


def to_timm(layer: MultiHeadAttention, *, into: nn.Module | None = None, verify: bool = True) -> nn.Module:
    """timm's `Attention` with our weights; fewer key heads are written out."""
    if into is None:
        _only_weights(layer, "timm's Attention")
        _equal_widths(layer, "timm's Attention")
        try:
            from timm.layers.attention import Attention
        except ImportError as error:
            raise MissingExtraError(
                f"timm cannot be imported here ({error}); install it with its torchvision, or give into="
            ) from error
        into = Attention(
            layer.embed_dim,
            layer.num_heads,
            attn_head_dim=layer.head_dim,
            qkv_bias=layer.q_proj.bias is not None,
            proj_bias=layer.out_proj.bias is not None,
            attn_drop=layer.dropout,
        ).to(layer.q_proj.weight)
    assert into is not None  # for the type checker, where timm is not installed
    return _write(layer, timm_modules, into.eval(), verify)


def to_x_transformers(layer: MultiHeadAttention, *, into: nn.Module | None = None, verify: bool = True) -> nn.Module:
    """`x_transformers.Attention` with our weights, its query heads in tiled order. It has no biases: ours must be 0."""
    if into is None:
        if layer.position is not None or layer.attention_bias is not None:
            raise ConversionError("x_transformers adds positions outside of Attention; give a layer without them")
        try:
            from x_transformers.x_transformers import Attention
        except ImportError as error:
            raise MissingExtraError("this needs x_transformers; install it with: pip install x-transformers") from error
        into = Attention(
            layer.embed_dim,
            dim_head=layer.head_dim,
            value_dim_head=layer.value_head_dim,
            heads=layer.num_heads,
            kv_heads=layer.num_kv_heads,
            dim_context=layer.key_dim,
            dropout=layer.dropout,
            softclamp_logits=layer.softcap is not None,
            logit_softclamp_value=layer.softcap or 50.0,
            project_out=True,
        ).to(layer.q_proj.weight)
    assert into is not None  # for the type checker, where x_transformers is not installed
    return _write(layer, x_modules, into.eval(), verify)


def to_keras(layer: MultiHeadAttention, *, into: Any = None, verify: bool = True) -> Any:
    """A Keras 3 layer, built, with our weights: MultiHeadAttention, or GroupedQueryAttention for fewer key heads."""
    layers = keras_layers.keras().layers
    if into is None:
        _only_weights(layer, "Keras's attention")
        said: dict[str, Any] = {"dropout": layer.dropout, "use_bias": layer.q_proj.bias is not None}
        if layer.num_kv_heads == layer.num_heads:
            into = layers.MultiHeadAttention(layer.num_heads, layer.head_dim, value_dim=layer.value_head_dim, **said)
        else:
            _equal_widths(layer, "Keras's GroupedQueryAttention")
            into = layers.GroupQueryAttention(layer.head_dim, layer.num_heads, layer.num_kv_heads, **said)
        shapes = [(None, None, width) for width in (layer.embed_dim, layer.value_dim, layer.key_dim)]
        into.build(*shapes)
    return _write(layer, keras_layers, into, verify)


def to_flax(layer: MultiHeadAttention, *, into: Any = None, verify: bool = True) -> Any:
    """`flax.nnx.MultiHeadAttention` with our weights."""
    if into is None:
        _only_weights(layer, "Flax's attention")
        _equal_widths(layer, "Flax's attention", keys_alike=True)
        try:
            from flax import nnx
        except ImportError as error:
            raise MissingExtraError("this needs Flax; install it with: pip install flax") from error
        into = nnx.MultiHeadAttention(
            num_heads=layer.num_heads,
            in_features=layer.embed_dim,
            qkv_features=layer.num_heads * layer.head_dim,
            num_kv_heads=layer.num_kv_heads,
            in_kv_features=layer.key_dim,
            dropout_rate=layer.dropout,
            use_bias=layer.q_proj.bias is not None,
            rngs=nnx.Rngs(0),
        )
    return _write(layer, flax_nnx, into, verify)


def _write(layer: MultiHeadAttention, adapter: Any, target: Any, verify: bool) -> Any:
    found: Found = adapter.find(target, {})
    parts = projections_of(layer)
    if found.layout.kv_heads != layer.num_kv_heads and found.layout.kv_heads == layer.num_heads:
        parts = _written_out(parts, layer)
    elif (found.layout.num_heads, found.layout.kv_heads) != (layer.num_heads, layer.num_kv_heads):
        raise ConversionError(
            f"the layer has {layer.num_heads} query and {layer.num_kv_heads} key heads, the target "
            f"{found.layout.num_heads} and {found.layout.kv_heads}"
        )
    if "out" not in found.arrays:
        _check_identity(layer, found.source)
        parts = parts._replace(out=None)
    if "k" in found.arrays and "k.bias" not in found.arrays and _shifts_whole_rows(layer):
        parts = parts._replace(key=parts.key._replace(bias=None))
    adapter.store(target, pack(parts, found.layout, found.arrays))
    made = Conversion(found.source, layout=found.layout)
    if verify and found.cases:
        again = adapter.find(target, {}).told({"mask": layer.mask})
        made = Comparison(adapter, target, again).measure(layer, again)
        if not made.difference <= made.allowed:
            worst = max(made.differences, key=lambda name: made.differences[name])
            raise ConversionError(
                f"the layer and the {found.source} made of it differ by {made.difference:.2g} in the case {worst!r} "
                f"(allowed {made.allowed:.1g}); one of them has an option that the other lacks"
            )
    remember(target, made)
    return target


def _check_identity(layer: MultiHeadAttention, target: str) -> None:
    """A target that ends with its joined heads has no place for a last projection."""
    weight = layer.out_proj.weight.detach()
    plain = weight.shape[0] == weight.shape[1] and torch.equal(weight, torch.eye(len(weight)).to(weight))
    if not plain or (layer.out_proj.bias is not None and bool(layer.out_proj.bias.any())):
        raise ConversionError(
            f"{target} ends with its joined heads, and the layer has a last projection; fill its parent"
        )


def _shifts_whole_rows(layer: MultiHeadAttention) -> bool:
    """Whether a bias of the keys adds the same to all scores of a query, which the softmax does not see."""
    return layer.position is None and layer.softcap is None and layer.k_norm is None


def _written_out(parts: Projections, layer: MultiHeadAttention) -> Projections:
    """As many key heads as query heads: each repeated for the queries that read it."""
    group = layer.num_heads // layer.num_kv_heads

    def repeated(part: Linear, width: int) -> Linear:
        def wide(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.unflatten(0, (-1, width)).repeat_interleave(group, dim=0).flatten(0, 1)

        weight = wide(part.weight)
        assert weight is not None
        return Linear(weight, wide(part.bias))

    return parts._replace(key=repeated(parts.key, layer.head_dim), value=repeated(parts.value, layer.value_head_dim))


def _only_weights(layer: MultiHeadAttention, target: str) -> None:
    """Refuse what no other constructor takes."""
    has = {
        "rotary or other positions": layer.position is not None,
        "an attention bias": layer.attention_bias is not None,
        "a softcap": layer.softcap is not None,
        "a scale of its own": layer.scale is not None,
        "norms of queries and keys": layer.q_norm is not None,
    }
    extra = [what for what, there in has.items() if there]
    if extra:
        raise ConversionError(f"{target} has no place for {' and '.join(extra)} of the layer")


def _whole_heads(layer: MultiHeadAttention, target: str) -> None:
    if layer.head_dim * layer.num_heads != layer.embed_dim or layer.value_head_dim != layer.head_dim:
        raise ConversionError(
            f"{target} has heads of embed_dim / num_heads = {layer.embed_dim / layer.num_heads:g} channels; the layer's "
            f"have {layer.head_dim}, its values {layer.value_head_dim}"
        )


def _equal_widths(layer: MultiHeadAttention, target: str, *, keys_alike: bool = False) -> None:
    """Refuse value heads of another width, and keys or values of another width than the query's."""
    widths = {"key_dim": layer.key_dim, "value_dim": layer.value_dim, "embed_dim": layer.embed_dim}
    same = layer.key_dim == layer.value_dim if keys_alike else len(set(widths.values())) == 1
    if layer.value_head_dim != layer.head_dim or not same:
        raise ConversionError(
            f"{target} has one width for keys and values; the layer has heads of {layer.head_dim} and "
            f"{layer.value_head_dim} channels, and {', '.join(f'{n}={x}' for n, x in widths.items())}"
        )
