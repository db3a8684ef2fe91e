"""Projections in 8 bits: weights alone, or weights and activations; what it costs is measured when it is made.

torchao where it is installed. Else torch's own: dynamic quantisation of linear layers, and for weights alone an int8
matrix with one scale per output channel, multiplied out when it is used.
"""

from __future__ import annotations

import copy
import importlib.util
import warnings
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.convert.build import projections_of
from regard.convert.doors import remember
from regard.convert.verify import Conversion, cases_for, ours
from regard.core.errors import ConversionError
from regard.nn.multi_head import MultiHeadAttention

_NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")


class Int8Weight(nn.Module):
    """A matrix kept as int8 with one scale per row; a parametrisation of `weight`."""

    def forward(self, small: Tensor, scale: Tensor) -> Tensor:
        """(out, in) int8 and (out, 1) to (out, in)."""
        return small.to(scale.dtype) * scale

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(out, in) to its rounded numbers and their scale."""
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        scale = torch.where(scale > 0, scale, 1.0)
        return (weight / scale).round().to(torch.int8), scale


def to_int8(
    layer: MultiHeadAttention, *, what: Literal["weights", "dynamic"] = "weights", backend: str | None = None
) -> MultiHeadAttention:
    """A copy of our layer whose four projections are in 8 bits, for inference.

    Args:
        what: "weights": int8 matrices, multiplied in the dtype of the layer; "dynamic": activations are rounded too.
        backend: "torchao" or "torch"; None: torchao where it is installed.

    Returns:
        In eval mode. `regard.convert.report` has the largest difference to the layer in float64, for five masks.

    Raises:
        ConversionError: A word that is none of these, or torchao is asked for and missing.
    """
    there = importlib.util.find_spec("torchao") is not None
    chosen = backend or ("torchao" if there else "torch")
    if what not in ("weights", "dynamic") or chosen not in ("torchao", "torch"):
        raise ConversionError(
            f'what is "weights" or "dynamic", backend "torchao" or "torch"; got {what!r}, {backend!r}'
        )
    if chosen == "torchao" and not there:
        raise ConversionError("torchao is not installed; install it with: pip install torchao, or give backend='torch'")
    exact = copy.deepcopy(layer).double().eval()
    made = copy.deepcopy(layer).eval().requires_grad_(False)
    made = _torchao(made, what) if chosen == "torchao" else _torch(made, what)
    remember(made, _measured(exact, made, layer, f"int8 {what} ({chosen})"))
    return made


def _torchao(layer: MultiHeadAttention, what: str) -> MultiHeadAttention:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its kernels for other machines
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

        quantize_(layer, Int8WeightOnlyConfig() if what == "weights" else Int8DynamicActivationInt8WeightConfig())
    return layer


def _torch(layer: MultiHeadAttention, what: str) -> MultiHeadAttention:
    if what == "weights":
        for name in _NAMES:
            parametrize.register_parametrization(getattr(layer, name), "weight", Int8Weight())
        return layer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that torchao will take its place
        quantize = torch.ao.quantization.quantize_dynamic
        return quantize(layer, {nn.Linear}, dtype=torch.qint8)  # pyright: ignore


def _measured(
    exact: MultiHeadAttention, made: MultiHeadAttention, layer: MultiHeadAttention, source: str
) -> Conversion:
    names = ("self", "padding", "causal", "causal and padding", "cross")
    apart = {}
    with torch.no_grad():
        for case in cases_for(names, projections_of(exact), layer.mask, layer.scale, layer.num_heads):
            given = [x if x is None else x.to(layer.q_proj.weight.dtype) for x in (case.query, case.context)]
            narrow = type(case)(case.name, given[0], given[1], case.extra, case.attend)  # pyright: ignore
            apart[case.name] = (ours(made, narrow).double() - ours(exact, case)).abs().amax().item()
    return Conversion(source, apart, float("inf"), "measured against float64")
