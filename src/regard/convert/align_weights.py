"""Why two projections differ: transposed, permuted by heads or channels, scaled, a bias that is missing; read from the numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.adapt.layout import Linear

SAME = 1e-5  # of the largest weight: both were float32 at some time


class Cause(NamedTuple):
    """Why two steps part.

    Attributes:
        kind: One word or two, for programs: "transposition", "head permutation", "mask polarity", "scale", ...
        text: A sentence.
    """

    kind: str
    text: str


def matrix_of(module: Any) -> Linear | None:
    """The projection of a linear module as (out, in), float64: torch's Linear, Conv1D of GPT-2, Keras's Dense layers."""
    kernel = getattr(module, "kernel", None)
    if kernel is not None and hasattr(kernel, "value"):  # Keras: (in, out) or (in, heads, width)
        weight = to_double(kernel.value)
        bias = getattr(module, "bias", None)
        heads_in = weight.ndim == 3 and "attention_output" in str(getattr(module, "path", ""))
        weight = weight.flatten(0, 1) if heads_in else weight.flatten(1)
        return Linear(weight.T, None if bias is None else to_double(bias.value).flatten())
    weight = getattr(module, "weight", None)
    if not isinstance(weight, nn.Parameter) or weight.ndim != 2:
        return None
    wide = to_double(weight)
    bias = getattr(module, "bias", None)
    turned = type(module).__name__ == "Conv1D"
    return Linear(wide.T if turned else wide, None if bias is None else to_double(bias))


def same(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding, with a largest number to measure it by."""
    return a.shape == b.shape and bool((a - b).abs().amax() <= SAME * max(float(a.abs().amax()), 1e-12))


def compare(reference: Linear, candidate: Linear, what: str) -> Cause | None:
    """Why the candidate's projection is another one; None where it is the same."""
    r, c = reference.weight, candidate.weight
    if same(r, c):
        return _bias(reference, candidate, what)
    if r.shape == c.T.shape and same(r, c.T):
        return Cause("transposition", f"the weight of {what} is transposed: pass it on with .T")
    if r.shape != c.shape:
        return Cause("weights", f"the weight of {what} is {tuple(r.shape)} in the reference and {tuple(c.shape)} here")
    ratio = ratio_of(r, c)
    if ratio is not None:
        return Cause("scale", f"the weight of {what} is {ratio:.6g} times the reference's")
    for axis, side in ((0, "outputs"), (1, "inputs")):
        order = permutation_of(r, c, axis)
        if order is not None:
            return permuted(order, f"the {side} of {what}")
    return Cause(
        "weights",
        f"the weights of {what} differ by {float((r - c).abs().amax()):.2g}, and no transposition, permutation or scale "
        "explains it: were they copied?",
    )


def _bias(reference: Linear, candidate: Linear, what: str) -> Cause | None:
    zero = torch.zeros(reference.weight.shape[0], dtype=torch.float64)
    r = zero if reference.bias is None else reference.bias
    c = zero if candidate.bias is None else candidate.bias
    if r.shape != c.shape:
        return Cause("bias", f"the bias of {what} has {len(r)} numbers in the reference and {len(c)} here")
    if bool((r - c).abs().amax() <= SAME * max(float(r.abs().amax()), float(c.abs().amax()), 1e-12)):
        return None
    if not bool(c.any()):
        return Cause("bias", f"the bias of {what} is missing: the reference's reaches {float(r.abs().amax()):.2g}")
    return Cause("bias", f"the biases of {what} differ by {float((r - c).abs().amax()):.2g}")


def ratio_of(r: Tensor, c: Tensor) -> float | None:
    """s with c = s r, or None."""
    power = float((r * r).sum())
    if r.shape != c.shape or power == 0:
        return None
    ratio = float((r * c).sum()) / power
    return ratio if ratio != 0 and same(r * ratio, c) else None


def permutation_of(r: Tensor, c: Tensor, axis: int) -> list[int] | None:
    """order with c[i] = r[order[i]] along an axis, or None."""
    r, c = (x if axis == 0 else x.T for x in (r, c))
    apart = torch.cdist(c, r, p=float("inf"))  # (rows of c, rows of r)
    least, order = apart.min(dim=1)
    limit = SAME * max(float(r.abs().amax()), 1e-12)
    found = order.tolist()
    return found if bool((least <= limit).all()) and sorted(found) == list(range(len(r))) else None


def permuted(order: list[int], what: str) -> Cause:
    """What a permutation of channels is: of whole heads, or of the channels inside them."""
    size = len(order)
    for width in sorted((d for d in range(2, size) if size % d == 0), reverse=True):
        starts = order[::width]
        whole = all(s % width == 0 for s in starts)
        if whole and all(order[i] == starts[i // width] + i % width for i in range(size)):
            heads = [s // width for s in starts]
            return Cause("head permutation", f"{what} are {len(heads)} heads of {width} channels in the order {heads}")
    for heads in (d for d in range(2, size) if size % d == 0):
        strided = np.arange(size).reshape(heads, -1).T.reshape(-1).tolist()
        if order == strided:
            return Cause(
                "head order", f"{what} are channel by channel over {heads} groups, where the reference has whole heads"
            )
    return Cause("channel permutation", f"{what} are the reference's in another order: {order[:8]} ...")


def to_double(x: Any) -> Tensor:
    """A float64 copy on the CPU."""
    if isinstance(x, Tensor):
        return x.detach().cpu().double()
    return torch.from_numpy(np.array(x)).double()
