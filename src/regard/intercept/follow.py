"""What each torch operator does to the lineage: views, scalars, masks, softmax by name or by exp and sum, dropout.

One function per family of operators; an operator that is in no table and keeps the shape of a tracked tensor carries its node on,
with its own name as the step, so that unknown arithmetic is recorded and does not break the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.intercept import axes as ax
from regard.intercept.arguments import other_operand, permuted, reduced_axes, scalar_factor, tensors_of
from regard.intercept.lineage import Lineage, Node, Softmax, strongest
from regard.intercept.site import Step

RESHAPES = {
    "view",
    "_unsafe_view",
    "reshape",
    "_reshape_alias",
    "unsqueeze",
    "squeeze",
    "flatten",
    "unflatten",
    "view_as",
}
SAME = {"clone", "alias", "detach", "contiguous", "lift_fresh", "lift", "_to_copy", "to", "real", "positive"}
RESIZES = {"slice", "narrow", "index_select", "constant_pad_nd", "roll", "flip", "gather", "take_along_dim", "repeat"}
FACTORIES = {
    "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like", "new_empty", "new_zeros",
    "new_ones", "new_full", "topk", "sort", "argsort", "cumsum", "cumprod", "embedding", "set", "resize", "_foreach",
}  # fmt: skip
NOISE = {"rand", "randn", "rand_like", "randn_like", "bernoulli", "exponential", "uniform", "normal", "geometric"}
REDUCTIONS = {
    "sum",
    "mean",
    "amax",
    "amin",
    "max",
    "min",
    "logsumexp",
    "norm",
    "linalg_vector_norm",
    "var",
    "std",
    "var_mean",
}


class Follower:
    """Applies an operator to the lineage. `now()` gives (path, file:line, order) for what is worth a place."""

    def __init__(self, lineage: Lineage, now: Callable[[], tuple[str, str, int]], hold: bool):
        self.lineage = lineage
        self.now = now
        self.hold = hold  # keep softmax inputs; outputs and masks are kept in any case: the module has them alive too
        self.softmaxes: list[Softmax] = []

    def apply(self, name: str, args: tuple, kwargs: dict, out: Any) -> tuple[Node, Tensor, int] | None:
        """Follow one operator. Returns (weighted node, output, reduced axis) when weights met values element-wise, else None."""
        if name in NOISE:
            return self._noise(name, args, kwargs, out)
        if name in FACTORIES:
            return None
        tensors = tensors_of(args)
        nodes = [(t, n) for t in tensors if (n := self.lineage.get(t)) is not None]
        if name in ("_softmax", "_safe_softmax", "_log_softmax"):
            return self._softmax(name, args, out)
        if not nodes:
            return self._scalar_only(name, args, out)
        whole = (
            name in ("index", "index_select") and tensors[0].dim() >= 3
        )  # matrices picked from a stack, not rows of a table
        if (whole or len(nodes) == len(tensors)) and all(n.role == "learned" for _, n in nodes):
            return self._each(out, lambda _: Node("learned"))
        main = strongest([n for _, n in nodes])
        if main is None or main.role == "learned":
            return self._scalar_only(name, args, out)
        tensor = next(t for t, n in nodes if n is main)
        if name in REDUCTIONS and not (name in ("max", "min") and len(tensors) == 2):
            return self._reduce(name, main, tensor, args, kwargs, out)
        node = self._next(name, main, tensor, args, kwargs, out)
        if node is not None and isinstance(out, Tensor):
            self._store(args, out, node)
        return None

    def _store(self, args: tuple, out: Tensor, node: Node) -> None:
        if args and out is args[0]:  # written in place: other views of the storage have taken the step too
            step = (node.after or node.before or (None,))[-1]
            self.lineage.overwrite(out, node, step)
        else:
            self.lineage.put(out, node)

    def _each(self, out: Any, make: Callable[[Tensor], Node]) -> None:
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.lineage.put(tensor, make(tensor))

    def _noise(self, name: str, args: tuple, kwargs: dict, out: Any) -> None:
        drop = None
        if name == "bernoulli":
            keep = next((a for a in (*args[1:], kwargs.get("p")) if isinstance(a, float)), None)
            drop = None if keep is None else 1.0 - keep
        self._each(out, lambda _: Node("noise", drop=drop))

    def _scalar_only(self, name: str, args: tuple, out: Any) -> None:
        """An ordinary tensor times a number: remembered, since it may become a query."""
        if name in ("mul", "div") and isinstance(out, Tensor) and args and isinstance(args[0], Tensor):
            factor = scalar_factor(name, args)
            if factor is not None and out.is_floating_point():
                self.lineage.put(out, Node("scaled", factors=(factor,)))

    def _softmax(self, name: str, args: tuple, out: Tensor) -> None:
        x, dim = args[0], args[1]
        node = self.lineage.get(x)
        dim = dim % x.dim() if x.dim() else 0
        if node is not None and node.role == "weights":
            self.lineage.put(out, node.then(Step("softmax", factor=float(dim)), node.axes))
            return
        known = node is not None and node.role == "score" and node.axes is not None
        axes = node.axes if known and node is not None and node.axes is not None else ax.unknown(x.shape)
        softmax = self._new_softmax(f"aten::{name}", axes, dim, x, out)
        made = Node("weights", axes, softmax=softmax, log=name == "_log_softmax")
        if node is not None and node.role == "score":
            made = replace(made, product=node.product if known else None, before=node.before)
        self.lineage.put(out, made)

    def _new_softmax(self, kernel: str, axes: ax.Axes, dim: int, logits: Tensor | None, made: Tensor) -> Softmax:
        path, where, order = self.now()
        axis = axes[dim] if axes else ()
        softmax = Softmax(axes, axis, dim, kernel, order, path, where, tuple(made.shape))
        softmax.logits = logits if self.hold else None
        softmax.made = made
        softmax.made_version = version_of(made)
        self.softmaxes.append(softmax)
        return softmax

    def _reduce(self, name: str, main: Node, tensor: Tensor, args: tuple, kwargs: dict, out: Any):
        """Sums of exponentials are softmax denominators; a sum of weighted values is attention pooling; the rest are statistics."""
        result = out[0] if isinstance(out, (tuple, list)) else out
        dims = reduced_axes(args, kwargs, tensor.dim())
        if name == "sum" and main.role == "weighted" and len(dims) == 1:
            return main, result, dims[0]
        if main.axes is None or main.role not in ("score", "exp", "weights"):
            return None
        gone = set(dims)
        if result.dim() == tensor.dim():
            axes = tuple(() if i in gone else a for i, a in enumerate(main.axes))
        else:
            axes = tuple(a for i, a in enumerate(main.axes) if i not in gone)
        summed = tuple(atom for i in dims for atom in main.axes[i])
        role = "expsum" if name == "sum" and main.role in ("exp", "weights") else "stat"
        log = name == "logsumexp"
        self.lineage.put(result, Node(role, axes, main.product, softmax=main.softmax, summed=summed, log=log))
        return None

    def _next(self, name: str, main: Node, tensor: Tensor, args: tuple, kwargs: dict, out: Any) -> Node | None:
        """The node of the output of an operator that is not a reduction, a product or a softmax."""
        if isinstance(out, (tuple, list)):
            return self._several(name, main, tensor, args, out)
        if not isinstance(out, Tensor):
            return None
        if out.dtype == torch.bool and main.role != "noise":
            return None
        axes = self._axes_after(name, main, tensor, args, kwargs, out)
        if name in RESHAPES or name in SAME or name in ("permute", "transpose", "t", "numpy_T", "expand", "select"):
            return replace(main, axes=axes)
        if name == "copy":  # copy_(destination, source)
            return replace(main, axes=axes) if tensor is not args[0] else main.then(Step("write"), axes)
        if name in RESIZES or name in ("cat", "stack"):
            node = main.then(Step(name), axes)
            return node if name != "stack" else replace(node, product=None)
        if out.numel() < tensor.numel() or (axes is None and out.shape != tensor.shape):
            return None
        return self._arithmetic(name, main, tensor, args, kwargs, out, axes)

    def _several(self, name: str, main: Node, tensor: Tensor, args: tuple, out: tuple | list) -> None:
        if name == "native_dropout":
            share = float(args[1]) if len(args) > 2 and args[2] is not False else 0.0
            self.lineage.put(out[0], main.then(Step("dropout", factor=share), main.axes))
        elif name in ("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_chunk", "unsafe_split"):
            for part in out:
                axes = None
                if main.axes is not None and part.dim() == tensor.dim():
                    axes = ax.resized(main.axes, part.shape)
                elif main.axes is not None:
                    dim = (args[1] if len(args) > 1 else 0) % tensor.dim()
                    axes = main.axes[:dim] + main.axes[dim + 1 :]
                self.lineage.put(part, replace(main, axes=axes))

    def _axes_after(
        self, name: str, main: Node, tensor: Tensor, args: tuple, kwargs: dict, out: Tensor
    ) -> ax.Axes | None:
        axes = main.axes
        if axes is None:
            return None
        if name in ("permute", "transpose", "t", "numpy_T"):
            return permuted(name, axes, args)
        if name == "select":
            dim = args[1] % tensor.dim()
            return axes[:dim] + axes[dim + 1 :]
        if name == "stack":
            dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % out.dim()
            return (*axes[:dim], (ax.Atom("e", out.shape[dim]),), *axes[dim:])
        if name in RESIZES or name == "cat":
            return ax.resized(axes, out.shape)
        if name == "convolution":
            mixed = (axes[0], (ax.Atom("mix", out.shape[1]),), *axes[2:])
            return mixed if out.shape[2:] == tensor.shape[2:] else None
        if name in RESHAPES:
            return ax.viewed(axes, out.shape)
        return axes if out.shape == tensor.shape else ax.broadcast(axes, out.shape)

    def _arithmetic(
        self, name, main: Node, tensor: Tensor, args, kwargs, out: Tensor, axes: ax.Axes | None
    ) -> Node | None:
        if main.role == "noise":
            return replace(main, axes=None)
        if main.role == "scaled":
            factor = scalar_factor(name, args) if name in ("mul", "div") else None
            return replace(main, factors=(*main.factors, factor)) if factor is not None else None
        other = other_operand(tensor, args, kwargs)
        met = self.lineage.get(other) if isinstance(other, Tensor) else None
        special = self._softmax_by_hand(name, main, met, tensor, args, out, axes)
        if special is not None:
            return special
        plain = met is None or met.role == "scaled" or (met.product is not None and met.product.learned)  # no scores
        if name == "mul" and main.role == "weights" and plain and isinstance(other, Tensor):
            grown = [
                i for i, (a, n) in enumerate(zip(reversed(main.axes or ()), reversed(out.shape))) if not a and n > 1
            ]
            if grown and main.axes is not None and other.dim() == out.dim():
                return replace(main, role="weighted", axes=axes, value=other)
        step = self._step(name, main, tensor, other, met, args, kwargs)
        return main.then(step, axes)

    def _softmax_by_hand(self, name, main: Node, met: Node | None, tensor, args, out, axes) -> Node | None:
        """exp of scores, its division by its sum, and exp of a log-softmax."""
        if name in ("exp", "exp2") and main.role == "score":
            path, where, order = self.now()
            late = Softmax(axes or ax.unknown(out.shape), (), -1, "exp", order, path, where, tuple(out.shape))
            late.logits = args[0] if self.hold else None
            return replace(main, role="exp", axes=axes, softmax=late)
        if name == "exp" and main.log:
            if main.softmax is not None:
                main.softmax.made = out
            return replace(main, axes=axes, log=False)
        if (
            name == "sub"
            and main.role == "score"
            and met is not None
            and met.log
            and met.role == "stat"
            and axes is not None
        ):
            dim = next((i for i, a in enumerate(axes) if a and a == met.summed), len(axes) - 1)
            softmax = self._new_softmax("exp(x - logsumexp)", axes, dim, args[0], out)
            return replace(main, role="weights", axes=axes, softmax=softmax, log=True)
        if (
            name in ("div", "mul")
            and main.role == "exp"
            and met is not None
            and met.role == "expsum"
            and axes is not None
        ):
            dim = next((i for i, a in enumerate(axes) if a and a == met.summed), len(axes) - 1)
            logits = main.softmax.logits if main.softmax is not None else None
            softmax = self._new_softmax("exp / sum", axes, dim, logits, out)
            return replace(main, role="weights", axes=axes, softmax=softmax, before=main.before + main.after, after=())
        if name == "div" and main.role == "weights" and met is not None and met.role == "expsum":
            return main.then(Step("renormalise"), axes)
        return None

    def _step(self, name, main: Node, tensor: Tensor, other: Any, met: Node | None, args, kwargs) -> Step:
        where = self.now()[1] if name in ("masked_fill", "where", "add", "sub") else ""
        held = other if isinstance(other, Tensor) else None
        if met is not None and met.role == "stat":
            return Step("shift", where=where)
        if met is not None and met.role == "noise":
            return Step("dropout", factor=met.drop) if name == "mul" else Step("noise")
        if name in ("mul", "div"):
            factor = scalar_factor(name, args)
            return Step("scale", factor=factor) if factor is not None else Step(name, tensor=held)
        if name == "neg":
            return Step("scale", factor=-1.0)
        if name in ("add", "sub", "rsub"):
            number = None if isinstance(other, Tensor) else other
            return Step("sub" if name == "sub" else "add", tensor=held, value=number, where=where)
        if name == "masked_fill":
            return Step("fill", tensor=args[1], value=args[2] if len(args) > 2 else None, where=where)
        if name == "where":
            keep = args[1] is tensor
            return Step("where", tensor=args[0], value=args[2 if keep else 1], keep=keep, where=where)
        return Step("clamp" if name.startswith("clamp") else name, tensor=held)


def version_of(tensor: Tensor) -> int:
    """The in-place version of a tensor; 0 for inference tensors, which have none."""
    return 0 if tensor.is_inference() else tensor._version
