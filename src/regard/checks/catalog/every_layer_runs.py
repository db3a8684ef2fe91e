"""Every attention layer of a stack runs."""

from __future__ import annotations

import re

from torch import nn

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import need_site, watch


@rule("ATT509", kinds=("output-unused",))
def every_layer_runs(case: Case) -> Verdict | None:
    """Where layers of one class stand in a row, attention is computed in each of them.

    Seen from inside: the interceptor counts the calls of every module and the attention in it.
    What goes wrong: a loop that begins at 1 or ends one too soon, the same layer called again and again, a layer that returns
    early.
    Why it matters: the parameters are there and are saved and loaded; they do nothing. Taking the output of an inner layer on
    purpose looks the same, so this is asked.

    Bad:
        for layer in self.layers[:-1]: x = layer(x)
    Good:
        for layer in self.layers: x = layer(x)
    """
    case.need(case.subject.is_module, "a function has no layers")
    need_site(case)
    seen = watch(case, case.sample()).seen
    with_attention = {s.path for s in seen.sites if isinstance(s.innermost, nn.Module)}
    idle, stacks = [], 0
    for same in _stacks(case.subject.pristine, with_attention):
        stacks += 1
        idle += [path for path in same if path not in with_attention]
    case.need(stacks > 0, "it has one attention layer")
    if not idle:
        return None
    never = [path for path in idle if path not in seen.calls]
    what = "never ran" if never else "ran without attention"
    return Verdict(
        "question",
        f"{', '.join(never or idle)} {what}; {len(with_attention)} layers of the same kind attended. Is that meant?",
        kind="output-unused",
        measured=len(with_attention),
        allowed=len(with_attention) + len(idle),
        example="a plain call in eval",
        cause="a loop over the layers that leaves some out",
        fix="run every layer, or do not make those that are not run",
    )


def _stacks(module: nn.Module, with_attention: set[str]) -> list[list[str]]:
    """Paths of modules of one class that differ in numbers only, where attention was seen in at least one."""
    groups: dict[tuple[str, type], list[str]] = {}
    for path, part in module.named_modules():
        place = re.sub(r"(?<![^.])\d+(?![^.])", "*", path)
        if "*" in place:
            groups.setdefault((place, type(part)), []).append(path)
    return [g for g in groups.values() if len(g) > 1 and with_attention & set(g)]
