"""Where attention is, read from source text: candidates are found in the syntax tree, and nothing is imported or run.

A candidate is a class (or a function of query and key) whose name says attention, or whose own code reaches a softmax with
a matrix product or a weighted sum, a fused attention call, or a gate (pooled, squashed, multiplied back).

No candidate: what only `generate` or a loss does, the softmax of an entropy, a class that returns a loss and holds nothing but
squashed predictions, a forward that refuses or returns None, a plain class that is only called (it looks at a model).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.checks.reach import CALLED, Function, constructing, methods, normalised_product, running, weighted_sum
from regard.core.errors import TargetError

SOFTMAX = {"softmax", "Softmax", "Softmax2d", "softmax_one", "sparsemax", "entmax15", "masked_softmax"}
FUSED = {
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
    "flex_attention",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "memory_efficient_attention",
    "MultiheadAttention",
}
PRODUCT = {"matmul", "bmm", "einsum", "baddbmm", "mm"}
SQUASH = {
    "sigmoid",
    "Sigmoid",
    "hardsigmoid",
    "Hardsigmoid",
    "hard_sigmoid",
    "h_sigmoid",
    "HSigmoid",
    "softmax",
    "Softmax",
}
POOL = re.compile(r"^(adaptive_(avg|max)_pool\dd|Adaptive(Avg|Max)Pool\dd|(avg|max)_pool\dd|mean|amax)$")
NAMED = re.compile(
    r"attention|attn|(^|_)mha|MHA|MHSA|Att(?![a-z])|squeeze_?excit|CBAM|^SE_?(Layer|Block|Module|Net)?$|^ECA"
)
DATA = re.compile(
    r"(Enum|NamedTuple|TypedDict|Protocol|Config|Exception|Error|Warning|TestCase|Function|Output|Processor|Test|Args|ABC|object)$"
)
LOSS = re.compile(r"Loss$|Entropy$")
LOSSES = {"cross_entropy", "nll_loss", "mse_loss", "kl_div", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
QUERY, KEY = re.compile(r"^(q|qs|query|queries|query_states)$"), re.compile(r"^(k|ks|key|keys|key_states|kv)$")
SKIPPED = {"__pycache__", "node_modules", "build", "dist"}


@dataclass(frozen=True)
class Candidate:
    """One class or function that looks like attention: `spec` is the target that `regard check` takes."""

    file: Path
    name: str  # "Attention", or "Outer.Inner"
    line: int
    kind: str  # "class" | "function"
    why: str  # "named", "softmax", "fused call", "gate"

    @property
    def spec(self) -> str:
        return f"{self.file}:{self.name}"


@dataclass
class Unreadable:
    """A file that is not Python of this version, with the reason."""

    file: Path
    reason: str


@dataclass
class _Facts:
    """What one class or function does, by the names that it calls."""

    calls: set[str] = field(default_factory=set)
    product: bool = False  # an `@`
    multiplies: bool = False  # a `*`
    divides: bool = False  # a `/`
    weighs: bool = False  # a sum of values times a softmax, or exponentials divided by a product of them

    def add(self, other: _Facts) -> None:
        self.calls |= other.calls
        self.product |= other.product
        self.multiplies |= other.multiplies
        self.divides |= other.divides
        self.weighs |= other.weighs

    def why(self) -> str | None:
        product = self.product or bool(self.calls & PRODUCT)
        if self.calls & FUSED:
            return "fused call"
        divides = self.divides or bool(self.calls & {"div", "true_divide", "reciprocal"})
        if (product and (self.calls & SOFTMAX or ({"exp", "sum"} <= self.calls and divides))) or self.weighs:
            return "softmax"
        if self.calls & LOSSES:  # it returns a loss: what it squashes are predictions
            return None
        if self.calls & SQUASH and (self.multiplies or "mul" in self.calls) and any(map(POOL.match, self.calls)):
            return "gate"
        return None


def python_files(folder: Path) -> Iterator[Path]:
    """Every .py file below a folder in sorted order; hidden folders, builds and virtual environments are left out."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            hidden = entry.name.startswith(".") or entry.name in SKIPPED or entry.name.endswith(".egg-info")
            if not hidden and not (entry / "pyvenv.cfg").exists() and not entry.is_symlink():
                yield from python_files(entry)
        elif entry.suffix == ".py":
            yield entry


def discover(place: Path) -> tuple[list[Candidate], list[Unreadable]]:
    """Candidates of one file, or of every file below a folder, in the order of file and line.

    Raises:
        TargetError: there is no such file or folder.
    """
    if not place.exists():
        raise TargetError(f"{place} does not exist")
    found: list[Candidate] = []
    unreadable: list[Unreadable] = []
    for file in python_files(place) if place.is_dir() else [place]:
        try:
            found += candidates(file)
        except (SyntaxError, ValueError, OSError, RecursionError) as error:
            unreadable.append(Unreadable(file, f"{type(error).__name__}: {error}"))
    return found, unreadable


def candidates(file: Path) -> list[Candidate]:
    """Candidates of one file, in the order of lines. Raises SyntaxError where the file cannot be parsed."""
    tree = ast.parse(file.read_bytes(), filename=str(file))
    reader = _Reader(tree)
    found = [
        Candidate(file, name, node.lineno, "class", why)
        for name, node in _classes(tree.body)
        if (why := reader.class_is_attention(node))
    ]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _takes_query_and_key(node) and (why := reader.facts(node).why()):
            found.append(Candidate(file, node.name, node.lineno, "function", why))
    return sorted(found, key=lambda c: c.line)


def definitions(file: Path) -> list[str]:
    """Names of all classes and functions at the top of a file: what else could have been meant."""
    tree = ast.parse(file.read_bytes(), filename=str(file))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds)]


def _classes(body: list[ast.stmt], outer: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield outer + node.name, node
            yield from _classes(node.body, f"{outer}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _classes([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)], outer)


def _takes_query_and_key(node: ast.FunctionDef) -> bool:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)][:3]
    return len(names) >= 2 and bool(QUERY.match(names[0]) and KEY.match(names[1]))


def _last_name(node: ast.expr) -> str:
    """`nn.Module` -> "Module", `Generic[T]` -> "Generic"."""
    if isinstance(node, ast.Subscript | ast.Call):
        return _last_name(node.value if isinstance(node, ast.Subscript) else node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class _Reader:
    """What the classes and functions of one file reach, through its own helpers and base classes."""

    def __init__(self, tree: ast.Module) -> None:
        self.classes = {node.name: node for _, node in _classes(tree.body)}
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.original = {
            alias.asname: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname
        }

    def facts(self, node: ast.AST, seen: frozenset[str] = frozenset()) -> _Facts:
        """Names called in `node` and in the functions of this file that it calls; base classes of this file included.

        Of a class, what its forward reaches counts, and of its constructor the layers that it makes.
        """
        facts = _Facts()
        if isinstance(node, ast.ClassDef):
            for part in constructing(node):
                facts.calls |= self._of(part).calls
            for part in running(node, self._inherited(node)):
                facts.add(self._of(part))
        else:
            facts = self._of(node)
        near = [self.functions[n] for n in sorted(facts.calls) if n in self.functions and n not in seen]
        if isinstance(node, ast.ClassDef):
            near += [b for b in self._local_bases(node) if b.name not in seen and b is not node]
        seen |= {n.name for n in near}
        for helper in near:
            facts.add(self.facts(helper, seen))
        return facts

    def _of(self, node: ast.AST) -> _Facts:
        """What stands in one function or statement."""
        facts = _Facts(weighs=weighted_sum(node, SOFTMAX) or normalised_product(node, PRODUCT))
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                name = _last_name(part.func)
                facts.calls.add(self.original.get(name, name))
            elif isinstance(part, ast.BinOp | ast.AugAssign):
                facts.product |= isinstance(part.op, ast.MatMult)
                facts.multiplies |= isinstance(part.op, ast.Mult)
                facts.divides |= isinstance(part.op, ast.Div)
            elif isinstance(part, ast.keyword | ast.Assign) and isinstance(part.value, ast.Name | ast.Attribute):
                facts.calls.add(_last_name(part.value))  # attend = F.softmax, gate_layer=nn.Sigmoid
        if "log" in facts.calls and not (facts.product or facts.weighs or facts.calls & PRODUCT):
            facts.calls -= SOFTMAX  # an entropy
        return facts

    def _inherited(self, node: ast.ClassDef, depth: int = 8) -> dict[str, Function]:
        """Methods of base classes of this file, those of nearer ones first."""
        found: dict[str, Function] = {}
        for base in self._local_bases(node) if depth else []:
            if base is not node:
                found = {**self._inherited(base, depth - 1), **methods(base), **found}
        return found

    def class_is_attention(self, node: ast.ClassDef) -> str | None:
        """Why this class is a candidate, or None."""
        if LOSS.search(node.name) or not self._runs(node, frozenset()):
            return None
        reached = self.facts(node).why()
        layer = node.bases or "forward" in methods(node)  # a plain class that is only called looks at a model
        named = layer and (NAMED.search(node.name) or NAMED.search(node.name.lower()))
        return reached or ("named" if named else None)

    def _runs(self, node: ast.ClassDef, seen: frozenset[str]) -> bool:
        """Has a forward that does something, here or in a base; data classes, enums and abstract classes do not."""
        if any(DATA.search(_last_name(base)) and _last_name(base) != "ABC" for base in node.bases):
            return False
        if any(_last_name(d) == "dataclass" for d in node.decorator_list) and not node.bases:
            return False
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name in CALLED:
                return not _is_abstract(method)
        local = [b for b in self._local_bases(node) if b.name not in seen and b is not node]
        if any(self._runs(base, seen | {node.name}) for base in local):
            return True
        foreign = [b for b in map(_last_name, node.bases) if b not in self.classes]
        return any(NAMED.search(b) for b in foreign)  # class MyAttention(BertSelfAttention): its forward is elsewhere

    def _local_bases(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        return [self.classes[name] for name in map(_last_name, node.bases) if name in self.classes]


def _is_abstract(method: ast.FunctionDef) -> bool:
    """Computes nothing: refuses, passes or returns None."""
    body = [s for s in method.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    empty = [
        isinstance(s, ast.Raise | ast.Pass)
        or (
            isinstance(s, ast.Return)
            and (s.value is None or (isinstance(s.value, ast.Constant) and s.value.value is None))
        )
        for s in body
    ]
    return all(empty) or any(_last_name(d) == "abstractmethod" for d in method.decorator_list)
