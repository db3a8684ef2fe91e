"""One attention site: the tensors of one softmax(q k^T) v as the module computed it, whatever way it was written.

Axes of what a site returns: (..., T, S) for logits and weights, (..., T, D) for queries, (..., S, D) for keys, (..., S, Dv) for
values, where S is the axis along which the weights meet the values. Leading axes are those of the module: (B, H), or (B * H).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.core.backends.open_form import masked_scores, softmax_weights
from regard.core.call import Call

HIDDEN = -5000.0  # an additive mask at or below this hides its key: finite constants in use start at -1e4


@dataclass
class Step:
    """One thing done between the product and the softmax, or between the softmax and the values.

    op: "scale" (factor), "add", "sub", "mul" (tensor), "fill" (mask, value), "where" (mask, value), "tanh", "clamp", "shift"
    (a row statistic subtracted), "softmax", "dropout" (factor = p), "renormalise", "mix" (heads), "cat", "slice", "cast", or the
    name of the torch operator.
    """

    op: str
    factor: float | Tensor | None = None  # a number, or the one-element tensor it was
    tensor: Tensor | None = None  # what was added, multiplied or used as the condition
    value: float | Tensor | None = None  # what was filled in
    keep: bool = True  # "where": the scores stay where the condition is True
    where: str = ""

    @property
    def number(self) -> float | None:
        """`factor` as a number; reads the tensor."""
        return float(self.factor) if self.factor is not None else None


@dataclass(repr=False, eq=False)
class Site:
    """One attention computation that was seen.

    kind: "fused" (a fused kernel), "softmax", "native_mha" (the fast paths of torch.nn), "exp" (exp divided by its sum, or
    by hand afterwards), "other" (weights that no softmax made: sigmoid, relu, sparse projections), "flex".
    """

    kind: str
    kernel: str
    order: int
    path: str = ""  # dotted path of the innermost module
    where: str = ""  # file:line of the softmax or the kernel call
    call: int = 0  # how many times the innermost module had been entered, this one included
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    output: Tensor | None = None  # (..., T, Dv), as the product gave it
    logits: Tensor | None = None  # the softmax input
    weights_used: Tensor | None = None  # what multiplied the values
    lse: Tensor | None = None  # (..., T), where the kernel gave it
    softmax_axis: int | None = -1  # in (..., T, S): -1 keys, -2 queries, -3 heads ...; None where there is none
    scale: float | None = None  # the scale argument of a fused kernel (already resolved to a number)
    is_causal: bool = False  # the kernel's own flag, aligned at the top left
    bias: Tensor | None = None  # the additive mask given to a fused kernel
    hidden: Tensor | None = None  # (..., T, S) True where a fast path hides a key (its own boolean mask)
    query_factors: list[float | Tensor] = field(default_factory=list)  # scalars multiplied into q before the product
    key_factors: list[float | Tensor] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)  # product -> softmax
    after: list[Step] = field(default_factory=list)  # softmax -> values
    dropout: float = 0.0  # on the weights
    swapped: bool = False  # the rows came from the right operand of the product: k q^T, or weights that were transposed
    learned_keys: bool = False  # keys are parameters, not computed from the input
    learned_values: bool = False
    learned_queries: bool = False
    batch: int | None = None  # first axis of the outermost module's first tensor
    input_shape: tuple[int, ...] = ()  # first tensor of the innermost module that got one
    innermost: Any = None  # the module itself
    weights_made: Tensor | None = None  # the softmax output, before dropout and the rest
    sources: dict[str, tuple[Tensor, Callable[[Tensor], Tensor | None]]] = field(default_factory=dict, repr=False)
    asked: Call | None = None  # a whole call of `regard.attention`, whatever kernels it was cut into
    grad_weights: Tensor | None = None  # dL/dA, filled in when backward runs under observation

    def __repr__(self) -> str:
        return f"<Site {self.order} {self.kind} {self.path or 'root'} {self.shape} {self.kernel} at {self.where}>"

    @property
    def scale_ops(self) -> list[tuple[str, float]]:
        """("query" | "key" | "scores" | "kernel", factor) in the order met; reads one-element tensors."""
        found = [("query", float(f)) for f in self.query_factors] + [("key", float(f)) for f in self.key_factors]
        found += [("scores", s.number) for s in self.before if s.op == "scale" and s.number is not None]
        return found + ([("kernel", self.scale)] if self.scale is not None else [])

    @property
    def mask(self) -> list[Step]:
        """What was added to, filled into or selected over the scores before the softmax."""
        steps = [s for s in self.before if s.op in ("add", "sub", "fill", "where", "mul") and s.tensor is not None]
        return steps + ([Step("add", tensor=self.bias)] if self.bias is not None else [])

    @property
    def dropout_steps(self) -> tuple[list[Step], list[Step]]:
        """Dropout seen before and after the softmax."""
        return [s for s in self.before if s.op == "dropout"], [s for s in self.after if s.op == "dropout"]

    @property
    def heads_axis(self) -> int | None:
        """Axis of the heads in (..., T, S) where it has an axis of its own: 1 of four, else None."""
        shape = self.shape
        return 1 if shape is not None and len(shape) == 4 else None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """(..., T, S)."""
        for tensor in (self.weights_used, self.weights_made, self.logits):
            if tensor is not None:
                return tuple(tensor.shape)
        if self.query is None or self.key is None:
            return None
        return (*self.query.shape[:-1], self.key.shape[-2])

    def raw_scores(self) -> Tensor | None:
        """q k^T as the product gives it, before any scale; None where q or k is unknown. Computed on each call."""
        if self.query is None or self.key is None:
            return None
        query, key = self.query.detach(), _like_heads(self.key.detach(), self.query)
        return query @ key.transpose(-1, -2)

    def scores(self) -> Tensor | None:
        """The softmax input, with the scale and every mask: recorded for open code, recomputed for kernels."""
        if self.logits is not None:
            return self.logits.detach()
        if self.asked is not None:
            return masked_scores(self.asked)
        raw = self.raw_scores()
        if raw is None or self.kind not in ("fused", "native_mha"):
            return None
        scores = raw.float() if raw.dtype in (torch.float16, torch.bfloat16) else raw
        scores = scores * (1.0 if self.scale is None else self.scale)
        if self.bias is not None:
            scores = scores + self.bias.detach()
        hidden = self._hidden_in_kernel(scores)
        return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)

    def _hidden_in_kernel(self, scores: Tensor) -> Tensor | None:
        hidden = self.hidden
        if self.is_causal:
            T, S = scores.shape[-2:]
            above = torch.ones(T, S, dtype=torch.bool, device=scores.device).triu(1)
            hidden = above if hidden is None else hidden | above
        return hidden

    def weights(self) -> Tensor | None:
        """(..., T, S) after the softmax and before dropout; recomputed for fused kernels. None where it cannot be known."""
        if self.weights_made is not None:
            return self.weights_made.detach()
        if self.asked is not None:
            return softmax_weights(self.asked)
        if self.kind in ("fused", "native_mha"):
            scores = self.scores()
            if scores is None:
                return None
            dead = (scores == -torch.inf).all(-1, keepdim=True)
            return torch.softmax(scores, -1).masked_fill(dead, 0.0)
        return self.weights_used.detach() if self.weights_used is not None else None

    def visible(self) -> Tensor | None:
        """(..., T, S) True where no mask hides the key: scores above -5000, which finite mask constants are below."""
        scores = self.scores()
        if scores is not None:
            return scores > HIDDEN
        weights = self.weights()
        return None if weights is None else weights > 0

    def gradient(self, loss: Tensor, name: str = "weights_used") -> Tensor | None:
        """d loss / d the tensor called `name` ("query", "key", "value", "output", "weights_used", "logits"), in its axes here.

        Needs `observe(..., keep_graph=True)`; the graph is kept. The weights of a fused kernel come from its output's gradient.
        """
        if name == "weights_used" and self.kind == "fused":
            grad, value = self.gradient(loss, "output"), self.value
            return None if grad is None or value is None else grad @ _like_heads(value.detach(), grad).transpose(-1, -2)
        source, arranged = self.sources.get(name, (getattr(self, name), lambda t: t))
        if source is None or not source.requires_grad:
            return None
        (grad,) = torch.autograd.grad(loss, source, retain_graph=True, allow_unused=True)
        return None if grad is None else arranged(grad)

    def expected_output(self) -> Tensor | None:
        """weights @ value from what was recorded: equal to `output` up to rounding when the site was understood."""
        weights = self.weights_used if self.weights_used is not None else self.weights()
        if weights is None or self.value is None:
            return None
        value = _like_heads(self.value.detach(), weights)
        return weights.detach().to(value.dtype) @ value


def _like_heads(key: Tensor, query: Tensor) -> Tensor:
    """Repeat the key heads of a grouped-query call so that head i of `query` meets its key head i // group."""
    if key.dim() >= 3 and query.dim() == key.dim() and query.shape[-3] != key.shape[-3] and key.shape[-3] > 1:
        return key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    return key
