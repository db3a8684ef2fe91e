"""Everything that learns is registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule


@rule("ATT705", kinds=("unregistered-parameters",))
def registered(case: Case) -> Verdict | None:
    """Layers and trainable tensors are reachable by parameters(), and stay the same objects when the module is called.

    What goes wrong: layers are kept in a plain list or dict; a tensor with requires_grad is an attribute and no
    nn.Parameter; the forward puts a new nn.Parameter in place of the old one.
    Why it matters: the optimizer does not see them, to(device) does not move them, state_dict does not save them.

    Bad:
        self.heads = [Head(d) for _ in range(h)]
    Good:
        self.heads = nn.ModuleList(Head(d) for _ in range(h))
    """
    case.need(case.subject.is_module, "a function has no parameters")
    known = {id(m) for m in case.subject.pristine.modules()} | {id(p) for p in case.subject.pristine.parameters()}
    for path, part in case.subject.pristine.named_modules():
        for name, value in vars(part).items():
            if name.startswith("_"):
                continue
            loose = [item for item in _items(value) if id(item) not in known and _learns(item)]
            if loose:
                where = f"{path}.{name}" if path else name
                alone = isinstance(value, (list, tuple)) and len(value) == 1
                what = "layers" if isinstance(loose[0], nn.Module) else "trainable tensors"
                return Verdict(
                    "question" if alone else "error",
                    f"{len(loose)} {what} in {where} are not registered: parameters() does not list them"
                    + ("; is the one-element list meant to hide it?" if alone else ""),
                    kind="unregistered-parameters",
                    measured=len(loose),
                    allowed=0,
                    cause=f"a plain {type(value).__name__} holds them",
                    fix="nn.ModuleList, nn.ModuleDict or nn.Parameter",
                )
    return _exchanged(case)


def _exchanged(case: Case) -> Verdict | None:
    """A parameter that is another object after a call: the first call may make what was not there, no later one may."""
    module = case.subject.instance(fresh=True)
    batch = case.sample()
    case.run(batch, module=module)
    before = dict(module.named_parameters())
    case.run(batch, module=module)
    new = [n for n, p in module.named_parameters() if n in before and p is not before[n]]
    if not new:
        return None
    return Verdict(
        "error",
        f"every call puts a new parameter in place of {', '.join(new[:3])}: the optimizer goes on with the old one, which is used no more",
        kind="unregistered-parameters",
        measured=len(new),
        allowed=0,
        example="two calls",
        cause="nn.Parameter(...) in the forward",
        fix="keep the parameter, and compute what the forward needs into a local variable",
    )


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _items(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _items(item)
    elif isinstance(value, (nn.Module, Tensor)):
        yield value


def _learns(item: Any) -> bool:
    if isinstance(item, nn.Module):
        return any(p.requires_grad for p in item.parameters())
    return item.requires_grad and item.is_leaf
