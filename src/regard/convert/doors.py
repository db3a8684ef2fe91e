"""The doors: from_torch, from_hf, ... give our layer, to_torch, to_hf, ... theirs; each is verified before it is returned.

One conversion: an adapter reads, `build` makes, `verify` runs both sides, `search` says what would have fitted.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from torch import Tensor, nn

from regard.adapt import (
    flax_nnx,
    huggingface,
    keras_layers,
    onnx_graph,
    timm_modules,
    torch_modules,
    x_transformers_modules as x_modules,
)
from regard.adapt.found import Adapter, Found
from regard.adapt.layout import Packing
from regard.convert.build import layer_of, with_pairing
from regard.convert.golden_case import golden_case
from regard.convert.search import search, words
from regard.convert.verify import Comparison, Conversion, against
from regard.core.errors import ConversionError
from regard.core.mask.expression import Mask
from regard.core.position import Pairing, Rotary
from regard.nn.multi_head import MultiHeadAttention

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger("regard.convert")
_reports: weakref.WeakKeyDictionary[Any, Conversion] = weakref.WeakKeyDictionary()


class How(TypedDict, total=False):
    """What a caller may say of the weights, in place of what was read.

    Attributes:
        num_heads, num_kv_heads, head_dim: Where the module does not say, or says it wrongly.
        packing, order, transposed, head_order, group_order: See `regard.adapt.layout.Layout`.
        mask, position, scale, softcap: Part of our layer, see `regard.nn.MultiHeadAttention`.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    packing: Packing
    order: str
    transposed: bool
    head_order: Literal["blocks", "strided"]
    group_order: Literal["grouped", "tiled"]
    mask: Mask | None
    position: Rotary | None
    scale: float | None
    softcap: float | None


def from_torch(
    module: nn.Module | Mapping[str, Tensor],
    *,
    verify: bool = True,
    example: tuple[Any, Any] | None = None,
    **how: Unpack[How],
) -> MultiHeadAttention:
    """Our layer from `torch.nn.MultiheadAttention`, or from any module with projections under names we know.

    Args:
        module: The attention itself, not a model; or its state dict, which needs `num_heads`.
        verify: Run both on random input, and refuse where they differ.
        example: (input, output) of the module, (B, T, E) both: what a state dict is verified with.
        **how: What to take in place of what was read, see `How`.

    Returns:
        In eval mode. `regard.convert.report(layer)` says what was compared.

    Raises:
        ConversionError: It cannot be read, or it computes something else; the text says which layout would have fitted.
    """
    return convert(torch_modules, module, "torch", verify, example, how)


def from_hf(
    module: nn.Module | Mapping[str, Tensor],
    *,
    pairing: Pairing | None = None,
    verify: bool = True,
    example: tuple[Any, Any] | None = None,
    **how: Unpack[How],
) -> MultiHeadAttention:
    """Our layer from an attention module of Hugging Face transformers, or from the state dict of one.

    Args:
        pairing: Reorder query and key channels for this pairing of rotary channels; None: as they are.
        module, verify, example, **how: As in `from_torch`.

    A module that adds a residual or a norm after its last projection is converted up to that projection; one that has no
    last projection (BertSelfAttention) gets the identity.
    """
    layer = convert(huggingface, module, "hf", verify, example, how)
    return layer if pairing is None else with_pairing(layer, pairing)


def from_timm(
    module: nn.Module | Mapping[str, Tensor],
    *,
    verify: bool = True,
    example: tuple[Any, Any] | None = None,
    **how: Unpack[How],
) -> MultiHeadAttention:
    """Our layer from timm's `Attention`, or from the state dict of one. Swin: see `regard.convert.from_swin`."""
    return convert(timm_modules, module, "timm", verify, example, how)


def from_x_transformers(module: nn.Module, *, verify: bool = True, **how: Unpack[How]) -> MultiHeadAttention:
    """Our layer from `x_transformers.Attention`, its key heads brought from tiled to grouped order."""
    return convert(x_modules, module, "x_transformers", verify, None, how)


def from_keras(
    layer: Any, *, verify: bool = True, example: tuple[Any, Any] | None = None, **how: Unpack[How]
) -> MultiHeadAttention:
    """Our layer from a built Keras 3 attention layer of any backend, or from its weights by name (see docs/convert.md)."""
    return convert(keras_layers, layer, "keras", verify, example, how)


def from_flax(
    module: Any, *, verify: bool = True, example: tuple[Any, Any] | None = None, **how: Unpack[How]
) -> MultiHeadAttention:
    """Our layer from `flax.nnx.MultiHeadAttention`, or from the parameters of one, nnx or linen."""
    return convert(flax_nnx, module, "flax", verify, example, how)


def from_onnx(
    model: Any, *, index: int = 0, verify: bool = True, example: tuple[Any, Any] | None = None, **how: Unpack[How]
) -> MultiHeadAttention:
    """Our layer from the Attention operator of an ONNX model (opset 23 or later) and the projections around it.

    Args:
        model: A path or an `onnx.ModelProto`.
        index: Which of its Attention nodes, from 0.
    """
    onnx = onnx_graph.onnx_package()
    try:
        proto = model if isinstance(model, onnx.ModelProto) else onnx.load(str(model))
    except Exception as error:  # no file, or no protocol buffer in it
        raise ConversionError(f"{model} cannot be read as ONNX: {type(error).__name__}: {error}") from error
    return convert(onnx_graph, onnx_graph.Attention(proto, index), "onnx", verify, example, how)


def report(converted: Any) -> Conversion:
    """What was compared when this layer, or their module, was made here.

    Raises:
        ConversionError: It was not made by regard.convert.
    """
    try:
        return _reports[converted]
    except (KeyError, TypeError):
        raise ConversionError(f"this {type(converted).__name__} was not made by regard.convert") from None


def remember(converted: Any, made: Conversion) -> None:
    """Keep the report for as long as the object lives, and log it."""
    _reports[converted] = made
    _log.info("%s", made)


def convert(
    adapter: Any, module: Any, door: str, verify: bool, example: tuple[Any, Any] | None, how: Mapping[str, Any]
) -> MultiHeadAttention:
    """Read, build, verify."""
    unknown = set(how) - set(How.__annotations__)
    if unknown:
        raise ConversionError(
            f"from_{door} does not know {', '.join(sorted(unknown))}; it takes {', '.join(How.__annotations__)}"
        )
    if hasattr(module, "relative_position_bias_table") or hasattr(module, "relative_position_bias"):
        raise ConversionError(f"{type(module).__name__} attends inside windows; regard.convert.from_swin reads it")
    found = cast(Adapter, adapter).find(module, how).told(how)
    layer = layer_of(found)
    remember(layer, _verified(adapter, module, door, found, layer, example) if verify else _unverified(found))
    return layer


def _unverified(found: Found) -> Conversion:
    return Conversion(found.source, layout=found.layout)


def _verified(
    adapter: Any, module: Any, door: str, found: Found, layer: MultiHeadAttention, example: Any
) -> Conversion:
    if example is not None:
        measured = against(layer, example, found)
        measure = lambda other, tried: against(other, example, tried)  # noqa: E731
    elif found.cases:
        comparison = Comparison(adapter, module, found)
        measured, measure = comparison.measure(layer, found), comparison.measure
    else:
        return replace(golden_case(adapter, door), source=found.source, layout=found.layout)
    if measured.difference <= measured.allowed:
        return measured
    change, least = search(found, measure)
    raise ConversionError(_apart(found, measured, change, least))


def _apart(found: Found, measured: Conversion, change: dict[str, Any] | None, least: float) -> str:
    worst = max(measured.differences, key=lambda name: measured.differences[name])
    text = (
        f"{found.source} and our layer differ by {measured.difference:.2g} in the case {worst!r} (allowed "
        f"{measured.allowed:.1g})"
    )
    if change is not None:
        matched, said = words(change)
        return f"{text}; the output matches {matched}: pass {said}"
    return (
        f"{text}; no other packing, order, transposition or number of heads fits either (the nearest is {least:.2g} off). "
        "Does the module do more than attention between its projections?"
    )
