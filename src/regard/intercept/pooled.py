"""Weights that meet values element by element: sum(weights * values) over one axis, without a matrix product.

Where the softmax ran along the summed axis this is a weighted mean, and a site. Where it ran along another, it is a site in two
cases that nothing but attention has: along an axis of size 1 (all weights are 1), and along an axis that the values share
(heads) beside an axis of queries, along which all read the same values. The rest are assignments (soft clusters, capsules).
"""

from __future__ import annotations

from torch import Tensor

from regard.intercept.assemble import DEPTH, build
from regard.intercept.axes import Axis
from regard.intercept.lineage import Node
from regard.intercept.site import Site

Weighted = tuple[Node, Tensor, int]  # what was summed, the sum, and the axis that is gone


def pooled(weighted: Weighted | None) -> Site | None:
    """The site of sum(weights * values, keys) written element by element."""
    if weighted is None:
        return None
    node, out, dim = weighted
    if node.softmax is None or node.value is None or node.axes is None:
        return None
    contracted = node.axes[dim]
    if any(step.op in ("index", "index_select", "gather") for step in node.after):
        return None  # rows in another order: a router of experts
    rows: Axis = ()
    if contracted != node.softmax.axis:
        asking = _asking(node, dim)
        if asking is None or not contracted or _first_label(contracted) == "e":
            return None
        rows = asking
    node.softmax.used = True
    lead = tuple(a for i, a in enumerate(node.axes) if i != dim and _first_label(a) != "e")
    value_axes = tuple(DEPTH if _first_label(a) == "e" else a for a in node.axes)
    value_axes = tuple(a if n > 1 else () for a, n in zip(value_axes, node.value.shape))
    made = node.softmax.made
    result = (out.flatten(-1), (*lead, DEPTH)) if out.dim() == len(lead) + 1 else (out, None)
    return build(node, contracted, rows, made, (node.value, value_axes), result)


def _asking(node: Node, dim: int) -> Axis | None:
    """The axis of the queries where the softmax ran along another than the summed one; () for none, None where this is no attention."""
    assert node.softmax is not None
    assert node.axes is not None
    assert node.value is not None
    if any(step.op == "renormalise" for step in node.after):
        return None
    along = node.softmax.axis
    if not along:
        return () if node.softmax.shape and node.softmax.shape[node.softmax.dim] == 1 else None
    shared = [i for i, a in enumerate(node.axes) if a == along and node.value.shape[i] > 1]
    asking = [a for i, a in enumerate(node.axes) if i != dim and a and a != along and node.value.shape[i] == 1]
    return asking[-1] if shared and asking else None


def _first_label(axis: Axis) -> str:
    return axis[0].label if axis else ""
