"""The Attention operator of an ONNX file (opset 23 and later) with the projections that stand around it.

From each of Q, K and V the graph is followed back to the matrix that made it, and from Y forward to the last one. What
stands between and computes (a rotary embedding, a norm) is refused by name: it would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.adapt.found import Facts, Found
from regard.adapt.layout import Layout
from regard.core.errors import ConversionError, MissingExtraError
from regard.core.mask.band import causal, sliding_window
from regard.core.mask.expression import And

_THROUGH = ("Reshape", "Transpose", "Identity", "Cast", "Unsqueeze", "Squeeze", "Split", "Slice", "Flatten")
_SHARED = "qkv"


@dataclass(frozen=True)
class Attention:
    """One Attention node of a model.

    Attributes:
        model: The `onnx.ModelProto`.
        index: Which of its Attention nodes, from 0.
    """

    model: Any
    index: int = 0


def onnx_package() -> Any:
    """The package.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("this needs onnx; install it with: pip install 'regard[onnx]'") from error
    return onnx


def find(module: Any, said: Mapping[str, Any]) -> Found:
    """Read an `Attention` of a file."""
    graph = _Graph(module)
    node, attributes = graph.node, graph.attributes
    ends = [graph.back(node.input[i], "QKV"[i]) for i in range(3)]
    arrays: dict[str, Tensor] = {}
    if len({end.weight_name for end in ends}) == 1:
        arrays[_SHARED] = ends[0].weight
        if ends[0].bias is not None:
            arrays[f"{_SHARED}.bias"] = ends[0].bias
    else:
        for letter, end in zip("qkv", ends):
            arrays[letter] = end.weight
            if end.bias is not None:
                arrays[f"{letter}.bias"] = end.bias
    last = graph.forth(node.output[0])
    if last is not None:
        arrays["out"] = last.weight
        if last.bias is not None:
            arrays["out.bias"] = last.bias
    heads = said.get("num_heads") or attributes.get("q_num_heads") or graph.heads_of(node.input[0])
    kv_heads = said.get("num_kv_heads") or attributes.get("kv_num_heads") or graph.heads_of(node.input[1])
    if not heads:
        raise ConversionError("the ONNX graph does not say how many heads its Attention has; give num_heads=")
    facts = Facts(mask=_mask(graph, said), scale=attributes.get("scale"), softcap=attributes.get("softcap") or None)
    cases = ("self", "padding", "causal", "causal and padding")
    cases = (*cases, "cross") if ends[0].start != ends[1].start else cases
    cases = ("cross",) if ends[0].start != ends[1].start else cases
    return Found(
        "the ONNX Attention", arrays, Layout(int(heads), kv_heads or None, transposed=True), facts, cases, True
    )


def run(module: Any, query: Tensor, context: Tensor | None, attend: Tensor) -> Tensor:
    """(B, T, E), by onnxruntime where it is installed, else by the reference evaluator."""
    graph = _Graph(module)
    model, given = graph.alone(query.shape[2], None if context is None else context.shape[2])
    tensors = [x for x in (query, context) if x is not None]
    feed = {name: x.numpy() for name, x in zip(given, tensors)} | {"regard_attend": attend[:, None].numpy()}
    feed |= graph.others(model, feed)
    return torch.from_numpy(np.array(evaluate(model, feed)[0]))


def store(module: Any, arrays: Mapping[str, Tensor]) -> None:
    raise ConversionError("an ONNX file is written by regard.convert.to_onnx, and not filled")


def evaluate(model: Any, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return [np.asarray(x) for x in ReferenceEvaluator(model).run(None, feed)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session: Any = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def _mask(graph: _Graph, said: Mapping[str, Any]):
    if "mask" in said:
        return said["mask"]
    name = graph.node.input[3] if len(graph.node.input) > 3 else ""
    if name and name not in {x.name for x in graph.model.graph.input}:
        raise ConversionError(
            f"the ONNX Attention hides keys by {name!r}, which the graph computes; say what it is with mask=, such as "
            "mask=causal()"
        )
    parts = []
    if graph.attributes.get("is_causal"):
        parts.append(causal())
    left, right = (graph.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if left >= 0 or right >= 0:
        parts.append(sliding_window(None if left < 0 else left, None if right < 0 else right))
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


@dataclass(frozen=True)
class _End:
    """A matrix, (in, out), and the name of what it was multiplied with."""

    weight: Tensor
    bias: Tensor | None
    weight_name: str
    start: str
    output: str


class _Graph:
    """A model, with its producers and consumers by name."""

    def __init__(self, given: Attention):
        onnx = onnx_package()
        self.onnx, self.model = onnx, given.model
        nodes = list(self.model.graph.node)
        found = [node for node in nodes if node.op_type == "Attention" and node.domain in ("", "ai.onnx")]
        if not found:
            kinds = sorted({node.op_type for node in nodes})
            raise ConversionError(
                f"the ONNX graph has no Attention node (its {len(nodes)} nodes: {', '.join(kinds[:8])}); export it at opset "
                "23 or later, where attention is one operator"
            )
        if not 0 <= given.index < len(found):
            raise ConversionError(f"the ONNX graph has {len(found)} Attention nodes, and none with index {given.index}")
        self.node = found[given.index]
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in self.node.attribute}
        self.made = {output: node for node in nodes for output in node.output}
        self.used = {name: [n for n in nodes if name in n.input] for node in nodes for name in node.output}
        self.stored = {x.name: x for x in self.model.graph.initializer}
        self.shapes = {x.name: x for x in [*self.model.graph.value_info, *self.model.graph.input]}

    def constant(self, name: str) -> Tensor | None:
        """A stored matrix or vector; also through a transposition or a Constant node."""
        if name in self.stored:
            return torch.from_numpy(np.array(self.onnx.numpy_helper.to_array(self.stored[name])))
        node = self.made.get(name)
        if node is not None and node.op_type == "Transpose":  # the matrix of a linear layer, as torch keeps it
            inner = self.constant(node.input[0])
            return None if inner is None or inner.ndim != 2 else inner.T
        if node is not None and node.op_type == "Constant":
            return torch.from_numpy(np.array(self.onnx.numpy_helper.to_array(node.attribute[0].t)))
        return None

    def heads_of(self, name: str) -> int | None:
        """The second axis of (B, H, T, D), where the file notes shapes."""
        if name not in self.shapes:
            return None
        sizes = [axis.dim_value for axis in self.shapes[name].type.tensor_type.shape.dim]
        return sizes[1] if len(sizes) == 4 and sizes[1] > 0 else None

    def back(self, name: str, role: str) -> _End:
        bias: Tensor | None = None
        while (node := self.made.get(name)) is not None:
            end = self._matrix(node, bias)
            if end is not None:
                return end
            if node.op_type == "Add":
                sides = [(self.constant(x), y) for x, y in (node.input, reversed(node.input))]
                stored = next(((c, other) for c, other in sides if c is not None), None)
                if stored is None:
                    break
                bias, name = stored
            elif node.op_type in _THROUGH:
                name = node.input[0]
            elif node.op_type == "Where" and (kept := [x for x in node.input[1:] if self.constant(x) is None]):
                name = kept[0]  # a guard: elsewhere a constant takes the place of NaN and inf
                if len(kept) > 1:
                    break
            else:
                break
        what = f"{node.op_type} ({node.name or name})" if node is not None else f"the input {name!r}"
        raise ConversionError(
            f"between {role} of the ONNX Attention and its projection stands {what}, which is not read; give verify=False "
            "and the weights by from_torch, or export without it"
        )

    def forth(self, name: str) -> _End | None:
        """The first stored matrix that what is called `name` is multiplied with, or None."""
        for node in self.used.get(name, []):
            end = self._matrix(node, None)
            if end is not None and node.input[0] == name:
                return self._with_bias(end)
            if node.op_type in (*_THROUGH, "Add", "Where"):  # guards add what is 0; running the graph decides
                end = self.forth(node.output[0])
                if end is not None:
                    return end
        return None

    def _with_bias(self, end: _End) -> _End:
        for node in self.used.get(end.output, []):
            for x in node.input if node.op_type == "Add" else ():
                if x != end.output and (bias := self.constant(x)) is not None:
                    return replace(end, bias=bias, output=node.output[0])
        return end

    def _matrix(self, node: Any, bias: Tensor | None) -> _End | None:
        if node.op_type not in ("MatMul", "Gemm"):
            return None
        weight = self.constant(node.input[1])
        if weight is None or weight.ndim != 2:
            return None
        if node.op_type == "Gemm":
            flags = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
            weight = weight.T if flags.get("transB") else weight
            bias = self.constant(node.input[2]) if len(node.input) > 2 else bias
        return _End(weight, bias, node.input[1], node.input[0], node.output[0])

    def alone(self, query_width: int, context_width: int | None) -> tuple[Any, list[str]]:
        """The part from the input of the projections to the output, with a mask of ours: a model and its inputs."""
        onnx, helper = self.onnx, self.onnx.helper
        starts = [self.back(self.node.input[i], "QKV"[i]).start for i in range(2)]
        last = self.forth(self.node.output[0])
        end = self.node.output[0] if last is None else last.output
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self.model.graph.node]
        for node in nodes:
            if node.op_type == "Attention" and node.output[0] == self.node.output[0]:
                kept = [*node.input[:3], "regard_attend"]
                del node.input[:]
                node.input.extend(kept)
                del node.attribute[:]
                node.attribute.extend(a for a in self.node.attribute if a.name not in ("is_causal",))
        kind = onnx.TensorProto.FLOAT
        wanted, reached = self._behind(nodes, end, starts)
        widths = [query_width] if context_width is None else [query_width, context_width]
        inputs = [
            helper.make_tensor_value_info(name, kind, ["B", f"T{i}", width])
            for i, (name, width) in enumerate(zip(dict.fromkeys(starts), widths))
        ]
        mask = helper.make_tensor_value_info("regard_attend", onnx.TensorProto.BOOL, ["B", 1, "T0", "S"])
        others = [x for x in self.model.graph.input if x.name in reached and x.name not in starts]
        graph = helper.make_graph(
            [node for node in nodes if id(node) in wanted],
            "attention",
            [*inputs, mask, *others],
            [helper.make_tensor_value_info(end, kind, None)],
            list(self.model.graph.initializer),
        )
        made_model = helper.make_model(
            graph, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version
        )
        return made_model, [x.name for x in inputs]

    def others(self, model: Any, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """True for every input besides ours, such as a padding mask; its sizes by the names of the query's axes."""
        sizes: dict[str, int] = {}
        for name, array in feed.items():
            if name in self.shapes:
                axes = self.shapes[name].type.tensor_type.shape.dim
                sizes |= {axis.dim_param: size for axis, size in zip(axes, array.shape) if axis.dim_param}
        made = {}
        for x in model.graph.input:
            kind = x.type.tensor_type
            if x.name in feed:
                continue
            if kind.elem_type != self.onnx.TensorProto.BOOL:
                raise ConversionError(
                    f"the ONNX graph also needs the input {x.name!r}, and we know none for it; verify=False"
                )
            made[x.name] = np.ones([sizes.get(axis.dim_param, axis.dim_value or 1) for axis in kind.shape.dim], bool)
        return made

    def _behind(self, nodes: list[Any], end: str, starts: list[str]) -> tuple[set[int], set[str]]:
        """The nodes that `end` needs, back to the starts, and the names that were met."""
        made = {output: node for node in nodes for output in node.output}
        wanted: set[int] = set()
        reached: set[str] = set()
        needed = [end]
        while needed:
            name = needed.pop()
            if name in reached:
                continue
            reached.add(name)
            node = made.get(name)
            if node is not None and name not in starts:
                wanted.add(id(node))
                needed.extend(node.input)
        return wanted, reached
