"""Which tensor came from which matrix product, and what was done to it since: nodes keyed by storage, not by object.

Autograd gives views new objects, so identity of tensors is useless; the key is (storage, offset, shape, strides). Each entry
keeps a weak reference to its storage: an address is never reused while an entry stands, and nothing is kept alive by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from regard.intercept.axes import Axes, Axis
from regard.intercept.site import Step

RANK = ("learned", "noise", "scaled", "stat", "expsum", "score", "exp", "weighted", "weights")  # the later one leads


@dataclass
class Product:
    """One matrix product left (N, T, D) @ right (N, D, S), or without N; its operands are held while its result lives."""

    left: Tensor
    right: Tensor
    left_factors: list[float | Tensor]
    right_factors: list[float | Tensor]
    learned_left: bool
    learned_right: bool
    kernel: str

    @property
    def learned(self) -> bool:
        return self.learned_left or self.learned_right


@dataclass
class Softmax:
    """One softmax that was seen: over which axis, of what, and where."""

    axes: Axes  # of its input
    axis: Axis  # the atoms of the axis that was normalised
    dim: int  # its place in the input
    kernel: str
    order: int
    path: str
    where: str
    shape: tuple[int, ...]
    logits: Tensor | None = None
    made: Tensor | None = None
    made_version: int = 0
    used: bool = False  # something multiplied values by it


@dataclass
class Node:
    """What is known about one tensor. role is one of RANK; `before` and `after` are the steps on each side of the softmax."""

    role: str
    axes: Axes | None = None
    product: Product | None = None
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    softmax: Softmax | None = None
    factors: tuple[float | Tensor, ...] = ()  # "scaled": what multiplied an ordinary tensor
    summed: Axis = ()  # "expsum": the axis that was summed
    drop: float | None = None  # "noise": the share that a dropout mask drops
    log: bool = False  # the log of the weights
    value: Tensor | None = None  # "weighted": what the weights multiplied, and the exponent's input for "exp"

    def then(self, step: Step | None, axes: Axes | None) -> Node:
        """The node of a tensor made from this one by `step`."""
        if step is None:
            return replace(self, axes=axes)
        if self.role in ("weights", "exp", "weighted"):
            return replace(self, axes=axes, after=(*self.after, step))
        return replace(self, axes=axes, before=(*self.before, step))

    def scalars(self) -> list[float | Tensor]:
        """The scalar factors met so far, for a tensor that becomes an operand. One that met a part of a sum scales no more than that."""
        if self.role == "scaled":
            return list(self.factors)
        if self.role != "score":
            return []
        size = prod(a.size for axis in self.axes or () for a in axis)
        sums = [i for i, s in enumerate(self.before) if s.op in ("add", "sub") and s.tensor is not None]
        whole = [i for i in sums if _numel(self.before[i]) >= size > 1]  # less is a bias, or a place's
        return [s.factor for s in self.before[max(whole, default=0) :] if s.op == "scale" and s.factor is not None]


def _numel(step: Step) -> int:
    return step.tensor.numel() if step.tensor is not None else 0


Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]


@dataclass
class Lineage:
    """The live nodes, by storage."""

    entries: dict[Key, tuple[StorageWeakRef, Node]] = field(default_factory=dict)
    by_storage: dict[int, set[Key]] = field(default_factory=dict)
    learned: set[int] = field(default_factory=set)  # storages of parameters and buffers
    purge_at: int = 128

    def get(self, tensor: Tensor) -> Node | None:
        key = key_of(tensor)
        if key is None:
            return None
        entry = self.entries.get(key)
        if entry is not None:
            return entry[1]
        return Node("learned") if key[0] in self.learned else None

    def put(self, tensor: Tensor, node: Node) -> None:
        key = key_of(tensor)
        if key is None:
            return
        if len(self.entries) >= self.purge_at:
            self.purge()
        if key[0] not in self.by_storage or self._storage_died(key[0]):
            self._forget(key[0])
        self.entries[key] = (StorageWeakRef(tensor.untyped_storage()), node)
        self.by_storage.setdefault(key[0], set()).add(key)

    def _storage_died(self, storage: int) -> bool:
        keys = self.by_storage.get(storage, ())
        return any(self.entries[k][0].expired() for k in keys)

    def _forget(self, storage: int) -> None:
        for key in self.by_storage.pop(storage, ()):
            self.entries.pop(key, None)

    def overwrite(self, tensor: Tensor, node: Node | None, step: Step | None) -> None:
        """An operation wrote into `tensor`: it becomes `node`, and every other view of its storage has taken `step` too."""
        key = key_of(tensor)
        if key is None:
            return
        for other in list(self.by_storage.get(key[0], ())):
            if other != key and step is not None:
                ref, old = self.entries[other]
                self.entries[other] = (ref, old.then(step, old.axes))
        if node is not None:
            self.put(tensor, node)
        elif key in self.entries:
            del self.entries[key]
            self.by_storage[key[0]].discard(key)

    def clear(self) -> None:
        """Forget everything, and with it every tensor that was held."""
        self.entries.clear()
        self.by_storage.clear()

    def purge(self) -> None:
        """Drop what belongs to freed storages."""
        for storage in [s for s in self.by_storage if self._storage_died(s)]:
            self._forget(storage)
        self.purge_at = max(128, 2 * len(self.entries))


def key_of(tensor: Tensor) -> Key | None:
    """(storage, offset, shape, strides), or None for tensors without one (sparse, nested, fake)."""
    if type(tensor).__name__ == "FakeTensor":  # a tracer at work: there is no data
        return None
    try:
        return tensor.untyped_storage()._cdata, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()
    except (NotImplementedError, RuntimeError):
        return None


def strongest(nodes: list[Node]) -> Node | None:
    """The node that leads when several tracked tensors meet; between scores, one that no parameter made."""
    if not nodes:
        return None
    return max(nodes, key=lambda n: (RANK.index(n.role), not (n.product is not None and n.product.learned)))
