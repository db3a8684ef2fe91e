"""Matrix products: where scores are born, where heads are mixed, and where weights meet the values."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.intercept import axes as ax
from regard.intercept.assemble import DEPTH, build
from regard.intercept.follow import Follower, version_of
from regard.intercept.lineage import Lineage, Node, Product
from regard.intercept.site import Site, Step

PRODUCTS = {
    "mm": 0,
    "bmm": 0,
    "addmm": 1,
    "baddbmm": 1,
    "_addmm_activation": 1,
    "mv": 0,
    "addmv": 1,
}  # place of the left operand
LINEAR_STEPS = {"scale", "cast", "shift", "slice", "cat", "write", "clone", "dropout"}


class Products:
    """Decides what each product is. `unknown(text)` takes what is seen and not understood."""

    def __init__(self, lineage: Lineage, follower: Follower, unknown):
        self.lineage = lineage
        self.follower = follower
        self.unknown = unknown

    def apply(self, name: str, args: tuple, kwargs: dict, out: Tensor) -> Site | None:
        """Follow one product; returns the site when weights met values in it."""
        at = PRODUCTS[name]
        left, right = args[at], args[at + 1]
        if name.endswith("mv"):
            right, out = right.unsqueeze(-1), out.unsqueeze(-1)
        nodes = (self.lineage.get(left), self.lineage.get(right))
        for side, node in enumerate(nodes):
            if node is not None and node.role in ("weights", "exp", "score") and node.axes is not None and not node.log:
                done, site = self._meets(node, nodes[1 - side], left, right, side, out)
                if done:
                    return site
        self._born(name, at, args, kwargs, left, right, nodes, out)
        return None

    def _born(self, name, at, args, kwargs, left: Tensor, right: Tensor, nodes, out: Tensor) -> None:
        """A new product: perhaps scores."""
        factors = [n.scalars() if n is not None else [] for n in nodes]
        learned = [n is not None and n.role == "learned" for n in nodes]
        product = Product(left, right, factors[0], factors[1], learned[0], learned[1], f"aten::{name}")
        names = ("b", "l", "r") if out.dim() == 3 else ("l", "r")
        before: list[Step] = []
        alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
        if at and alpha != 1:
            before.append(Step("scale", factor=float(alpha)))
        if at and beta != 0:
            before.append(Step("add", tensor=args[0], where=""))
        if name == "_addmm_activation":
            before.append(Step("gelu" if kwargs.get("use_gelu") else "relu"))
        self.lineage.put(out, Node("score", ax.fresh(names, out.shape), product, tuple(before)))

    def _meets(self, node: Node, other: Node | None, left: Tensor, right: Tensor, side: int, out: Tensor):
        """(understood, site) of a product of which one operand is made of scores or weights."""
        axes = node.axes
        assert axes is not None
        contracted, rows = (axes[-1], axes[-2]) if side == 0 else (axes[-2], axes[-1])
        learned_other = other is not None and other.role == "learned"
        if learned_other and self._mixes(node, contracted):
            self._mixed(node, axes, contracted, right if side == 0 else left, side, out)
            return True, None
        if node.role == "score" and not self._is_attention(node, learned_other):
            return False, None
        if self._is_lottery(node, learned_other):
            return False, None
        if node.role == "exp" and node.product is not None and node.product.learned:
            self.unknown("the exponential of a learned projection meets a product with no softmax: random features?")
            return False, None
        return True, self._site(node, contracted, rows, left, right, side, out, learned_other)

    def _mixes(self, node: Node, contracted: ax.Axis) -> bool:
        """Whether the product with a parameter runs along neither the keys nor the queries: talking heads."""
        if node.role == "weights" and node.softmax is not None:
            return not ax.overlaps(contracted, node.softmax.axis) and ax.labels(contracted) <= {"b", "e", "mix"}
        real = node.product is not None and not node.product.learned
        return real and bool(contracted) and ax.labels(contracted) <= {"b", "mix"}

    def _mixed(self, node: Node, axes: ax.Axes, contracted: ax.Axis, by: Tensor, side: int, out: Tensor) -> None:
        new = contracted if by.shape[-1] == by.shape[-2] else (ax.Atom("mix", out.shape[-1 if side == 0 else -2]),)
        changed = (*axes[:-1], new) if side == 0 else (*axes[:-2], new, axes[-1])
        self.lineage.put(out, node.then(Step("mix", tensor=by), changed))

    def _is_attention(self, node: Node, learned_other: bool) -> bool:
        """Scores without a softmax that multiply something: weights only when both were computed and something bent them."""
        product = node.product
        if (
            product is None
            or product.learned
            or learned_other
            or ax.labels(node.axes[-1] if node.axes else ()) - {"l", "r"}
        ):
            return False
        bent = [
            s for s in node.before if s.op not in LINEAR_STEPS and (s.op not in ("add", "sub") or s.tensor is not None)
        ]
        if not bent:
            self.unknown(
                "a product of two computed tensors multiplies a third with no softmax between: linear attention?"
            )
        return bool(bent)

    def _is_lottery(self, node: Node, learned_other: bool) -> bool:
        """A random choice of a learned code (Gumbel softmax and a code book) is not attention."""
        noisy = any(s.op == "noise" for s in node.before)
        if noisy and (learned_other or node.product is None or node.product.learned):
            self.unknown("a softmax over scores with random noise (Gumbel) selects a vector: not attention")
            return True
        return False

    def _site(self, node, contracted, rows, left: Tensor, right: Tensor, side: int, out: Tensor, learned: bool) -> Site:
        if node.role == "exp" and node.softmax is not None:  # divided by its sum later, if at all
            axis = next((a for a in node.softmax.axes if ax.overlaps(a, contracted)), contracted)
            node = replace(node, softmax=replace(node.softmax, axis=axis))
        batch = node.axes[:-2]
        if side == 0:
            used, value = (left, node.axes), (right, (*batch, contracted, DEPTH))
            result = (out, (*batch, rows, DEPTH))
        else:
            used, value = (right, node.axes), (left, (*batch, DEPTH, contracted))
            result = (out, (*batch, DEPTH, rows))
        held = replace(node, axes=used[1])
        if node.softmax is not None:
            node.softmax.used = True
            if node.softmax.made is not None and version_of(node.softmax.made) != node.softmax.made_version:
                held = replace(
                    held, softmax=replace(node.softmax, made=None)
                )  # written over since: only what was used is left
        site = build(held, contracted, rows, used[0], value, result)
        site.learned_values = learned
        return site
