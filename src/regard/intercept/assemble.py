"""From "these weights met these values" to a Site: tensors brought to (..., T, S) and (..., T, D), whatever layout they had."""

from __future__ import annotations

from math import prod

from torch import Tensor

from regard.intercept.axes import Atom, Axes, Axis, labels, overlaps
from regard.intercept.lineage import Node, Product
from regard.intercept.site import Site

DEPTH: Axis = (Atom("depth", -1),)  # the channel axis of q, k or v; its size is read from the tensor


def build(
    node: Node,
    contracted: Axis,
    rows: Axis,
    used: Tensor | None,
    value: tuple[Tensor, Axes],
    out: tuple[Tensor, Axes | None],
) -> Site:
    """The site of a product of weights `used` (axes `node.axes`) with values, along the axis `contracted`.

    `rows` is the axis of the weights that the product kept; `value` and `out` come with their axes, DEPTH among them.
    """
    softmax, product = node.softmax, node.product
    layout = canonical(softmax.axes if softmax is not None else node.axes, contracted, rows)
    site = Site(kind=_kind(node), kernel=softmax.kernel if softmax is not None else "matmul", order=0)
    site.before, site.after = list(node.before), list(node.after)
    site.dropout = next((s.number or 0.0 for s in node.after if s.op == "dropout"), 0.0)
    if layout is None:
        site.weights_used, site.value, site.output = used, value[0], out[0]
        site.logits = softmax.logits if softmax is not None else None
        site.softmax_axis = softmax.dim - len(softmax.shape) if softmax is not None else None
        return site
    lead, query, key = layout
    _place(site, "weights_used", used, node.axes, (*lead, query, contracted))
    _place(site, "value", *value, (*lead, contracted, DEPTH))
    _place(site, "output", *out, (*lead, query, DEPTH))
    site.softmax_axis = None
    if softmax is not None:
        _place(site, "logits", softmax.logits, softmax.axes, (*lead, query, key))
        _place(site, "weights_made", softmax.made, softmax.axes, (*lead, query, key))
        site.softmax_axis = next(
            (-i - 1 for i, a in enumerate((key, query, *reversed(lead))) if a and a == softmax.axis), None
        )
    if product is not None:
        _operands(site, product, lead, query, key)
    return site


def _place(site: Site, name: str, tensor: Tensor | None, axes: Axes | None, target: Axes) -> None:
    setattr(site, name, arrange(tensor, axes, target))
    if tensor is not None:
        site.sources[name] = (tensor, lambda t: arrange(t, axes, target))


def _kind(node: Node) -> str:
    if node.softmax is None:
        return "other"
    return "exp" if node.softmax.kernel.startswith("exp") else "softmax"


def canonical(axes: Axes | None, contracted: Axis, rows: Axis) -> tuple[tuple[Axis, ...], Axis, Axis] | None:
    """(leading axes, query axis, key axis) of weights whose `contracted` axis meets the values; None where unclear.

    The query axis is the last one that overlaps `rows`; where there is none, a single query is meant.
    """
    if axes is None or not contracted:
        return None
    keys = [i for i, axis in enumerate(axes) if overlaps(axis, contracted)]
    if len(keys) != 1:
        return None
    others = [i for i in range(len(axes)) if i != keys[0]]
    query = next((i for i in reversed(others) if overlaps(axes[i], rows)), None)
    lead = tuple(axes[i] for i in others if i != query)
    if query is None and lead and not lead[-1]:
        lead = lead[:-1]  # an explicit axis of size 1 is the single query
    return lead, (axes[query] if query is not None else ()), axes[keys[0]]


def _operands(site: Site, product: Product, lead: tuple[Axis, ...], query: Axis, key: Axis) -> None:
    """Fill in q and k: the operand that made the key axis is the key."""
    sides = {
        "l": (product.left, product.left_factors, product.learned_left),
        "r": (product.right, product.right_factors, product.learned_right),
    }
    side = labels(key) & {"l", "r"}
    if len(side) != 1 or side & labels(query):
        return
    one = side.pop()
    other = "r" if one == "l" else "l"
    site.swapped = other == "r"
    batch = (Atom("b", product.left.shape[0]),) if product.left.dim() == 3 else None
    for name, label, rows in (("query", other, query), ("key", one, key)):
        tensor, factors, learned = sides[label]
        at = -2 if label == "l" else -1
        mine = (Atom(label, tensor.shape[at]),) if tensor.shape[at] > 1 else ()
        axes = (mine, DEPTH) if label == "l" else (DEPTH, mine)
        if batch is not None:
            axes = (batch if tensor.shape[0] > 1 else (), *axes)
        _place(site, name, tensor, axes, (*lead, rows, DEPTH))
        setattr(site, f"{name}_factors", factors)
        setattr(site, "learned_keys" if name == "key" else "learned_queries", learned)


def arrange(tensor: Tensor | None, axes: Axes | None, target: Axes) -> Tensor | None:
    """Reshape and permute `tensor` from `axes` to `target`; target axes that it does not have become size 1. None if it cannot."""
    if tensor is None or axes is None:
        return None
    wanted = [atom for axis in target for atom in axis]
    pieces: list[Atom] = []
    for axis, size in zip(axes, tensor.shape):
        for atom in axis:
            split = _split(atom if atom.size >= 0 else Atom(atom.label, size), wanted)
            if split is None:
                return None
            pieces.extend(split)
    sizes = {(a.label, a.stride): a.size for a in pieces}
    if len(sizes) != len(pieces):
        return None
    order, shape = [], []
    for axis in target:
        mine = [(a.label, a.stride) for a in axis if (a.label, a.stride) in sizes]
        order.extend(mine)
        shape.append(prod(sizes[m] for m in mine))
    if len(order) != len(pieces):
        return None
    place = {(a.label, a.stride): i for i, a in enumerate(pieces)}
    return tensor.reshape([a.size for a in pieces]).permute([place[o] for o in order]).reshape(shape)


def _split(atom: Atom, wanted: list[Atom]) -> list[Atom] | None:
    """`atom` cut at the places where the wanted atoms of its label are cut; a whole axis of another length counts as itself."""
    if atom.size == 1:
        return []
    same = sorted((w for w in wanted if w.label == atom.label), key=lambda w: -w.stride)
    inside = [w for w in same if atom.stride <= w.stride < atom.stride * atom.size]
    if prod(w.size for w in inside) == atom.size:
        return inside
    if len(same) == 1 and same[0].stride == atom.stride:
        return [atom]
    return None
