"""Our layer out of Python: torch.export and ONNX, with any batch and length, compared with the layer before it is handed over.

Axes: B samples, T queries, S keys, P keys so far, E channels.
ONNX goes through the Attention operator, which exists from opset 23 on. Below it, the exporter writes attention out in
single steps, and a row that sees no key comes out as NaN or as a mean: such opsets are refused.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.adapt.onnx_graph import evaluate, onnx_package
from regard.convert.doors import remember
from regard.convert.export_forms import FORMS, TAKES, Form, OperatorAttention, RepeatedHeads
from regard.convert.verify import Conversion, allowance
from regard.core.errors import ConversionError, MissingExtraError
from regard.nn.multi_head import MultiHeadAttention

OPSET = 23  # the first with Attention
TYPED = ((2, 5, 4), (3, 9, 6), (1, 1, 3), (4, 2, 2))  # batch, length, other length: what every export is tried with


@dataclass(frozen=True)
class Exported:
    """A layer that was exported.

    Attributes:
        program: A `torch.export.ExportedProgram` or an `onnx.ModelProto`.
        inputs: Their names, in order.
        outputs: Theirs.
        report: How far its outputs were from the layer's.
        nodes: Kinds of ONNX nodes and how many there are; empty for torch.export.
    """

    program: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    report: Conversion
    nodes: dict[str, int]


def to_exported(layer: MultiHeadAttention, *, takes: Sequence[str] = (), verify: bool = True) -> Exported:
    """`torch.export` of our layer, with free batch and length.

    Args:
        layer: In eval mode it is exported, whatever mode it is in.
        takes: What a call is given besides the query: "keep" (B, S) bool, True = a real token; "mask" (B, 1, T, S) bool,
            True = attend; "context" (B, S, E), for cross-attention; "cache", the keys and values so far (B, G, P, D)
            and (B, G, P, Dv), which come back with the new ones.
        verify: Compare with the layer at four sizes, among them rows that see no key.

    Raises:
        ConversionError: Things that do not go together, or an output that differs.
    """
    form = _form(layer, takes)
    grouped_cap = layer.softcap is not None and layer.num_kv_heads != layer.num_heads
    program = _program(_form(RepeatedHeads.of(layer), takes) if grouped_cap else form)
    call = program.module()
    report = _compared(
        form, lambda given: [np.asarray(x.detach()) for x in _several(call(*given))], "torch.export", verify
    )
    remember(program, report)
    return Exported(program, form.inputs, form.outputs, report, {})


def to_onnx(
    layer: MultiHeadAttention,
    path: str | Path | None = None,
    *,
    takes: Sequence[str] = (),
    opset: int = OPSET,
    verify: bool = True,
) -> Exported:
    """ONNX of our layer through the Attention operator, with free batch and length; run in onnxruntime and compared.

    Args:
        layer, takes, verify: As in `to_exported`.
        path: Where the file goes; None: nowhere.
        opset: 23 or later.

    Raises:
        ConversionError: An opset without the operator, things that do not go together, or an output that differs.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    if opset < OPSET:
        raise ConversionError(
            f"opset {opset} has no Attention operator: the exporter writes it out in steps, and rows that see no key come "
            f"out as NaN, or off by as much as the values are (1.1 in our test); give opset={OPSET} or later"
        )
    onnx = onnx_package()
    form = _form(layer, takes)
    proto = _proto(form if layer.softcap is None else _form(OperatorAttention.of(layer), takes), opset)
    nodes: dict[str, int] = {}
    for node in proto.graph.node:
        nodes[node.op_type] = nodes.get(node.op_type, 0) + 1
    if "Attention" not in nodes:
        raise ConversionError(f"the exporter of torch {torch.__version__} made no Attention node of this layer")

    def run(given: tuple[Tensor, ...]) -> list[np.ndarray]:
        return evaluate(proto, {name: x.numpy() for name, x in zip(form.inputs, given, strict=True)})

    report = _compared(form, run, f"onnx opset {opset}", verify)
    if path is not None:
        onnx.save(proto, str(path))
    return Exported(proto, form.inputs, form.outputs, report, nodes)


def _form(layer: MultiHeadAttention, takes: Sequence[str]) -> Form:
    chosen = frozenset(takes)
    if chosen - set(TAKES):
        raise ConversionError(f"takes is some of {', '.join(TAKES)}, got {', '.join(sorted(chosen - set(TAKES)))}")
    if chosen not in FORMS:
        known = "; ".join(" and ".join(sorted(one)) or "nothing" for one in FORMS)
        raise ConversionError(f"takes={', '.join(sorted(chosen))} do not go together; what does: {known}")
    return FORMS[chosen](layer)


def _program(form: Form) -> Any:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        return torch.export.export(form, form.example(3, 5, 4), dynamic_shapes=form.free())


def _proto(form: Form, opset: int) -> Any:
    loud = logging.getLogger("torch.onnx")
    level, loud_level = loud.level, logging.ERROR
    loud.setLevel(loud_level)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                form,
                form.example(3, 5, 4),
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=form.free(),
                input_names=list(form.inputs),
                output_names=list(form.outputs),
                verbose=False,
            )
    except ImportError as error:
        raise MissingExtraError(
            f"export to ONNX needs onnxscript ({error}); install it with: pip install 'regard[onnx]'"
        ) from error
    finally:
        loud.setLevel(level)
    if program is None:
        raise ConversionError("torch.onnx.export gave nothing")
    return program.model_proto


def _several(output: Any) -> Sequence[Tensor]:
    return output if isinstance(output, tuple | list) else (output,)


def _compared(form: Form, run: Any, source: str, verify: bool) -> Conversion:
    """The largest difference at every size, the first of which has samples that see nothing where the form can say so."""
    if not verify:
        return Conversion(source)
    apart: dict[str, float] = {}
    largest = 0.0
    for sizes in TYPED:
        given = form.example(*sizes)
        with torch.no_grad():
            expected = _several(form(*given))
        gap = 0.0
        for mine, theirs in zip(expected, run(given), strict=True):
            if tuple(mine.shape) != tuple(theirs.shape):
                raise ConversionError(f"{source} gives {tuple(theirs.shape)} where the layer gives {tuple(mine.shape)}")
            difference = (mine - torch.from_numpy(np.asarray(theirs))).abs()
            gap = max(gap, float("inf") if bool(difference.isnan().any()) else float(difference.amax()))
            largest = max(largest, float(mine.abs().amax()))
        apart[f"batch {sizes[0]}, length {sizes[1]}"] = gap
    report = Conversion(source, apart, allowance(largest), "both sides ran")
    if not report.difference <= report.allowed:
        raise ConversionError(
            f"{source} and the layer differ by {report.difference:.2g} (allowed {report.allowed:.1g}): {report}"
        )
    return report


def exportable(layer: Any) -> MultiHeadAttention:
    """Ours as it is; another attention module converted and verified.

    Raises:
        ConversionError: It cannot be read.
    """
    if isinstance(layer, MultiHeadAttention):
        return layer
    if not isinstance(layer, nn.Module):
        raise ConversionError(f"an attention module was expected, got {type(layer).__name__}")
    from regard.convert.doors import from_hf, from_torch

    hf = type(layer).__module__.startswith("transformers.")
    return from_hf(layer) if hf else from_torch(layer)
