"""A call leaves nothing behind in a default argument."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.defaults import mutable_defaults, put_back
from regard.checks.rule import rule
from regard.checks.subject import clone, untouched_globals


@rule("ATT207", kinds=("cache-stale",))
def default_argument(case: Case) -> Verdict | None:
    """A list or dict that is a default argument of a forward is as empty after a call as before.

    What goes wrong: `past=[]` is made once, when the class is; each call appends its keys to those of all earlier calls, of
    all instances.
    Why it matters: every sequence attends to the ones before it, and memory grows until it ends.

    Bad:
        def forward(self, x, past=[]): past.append(k)
    Good:
        def forward(self, x, past=None): past = [] if past is None else past
    """
    module = case.subject.instance(fresh=True)
    held = mutable_defaults(module)
    case.need(bool(held), "no default argument is a list, a dict or a set")
    kwargs = {k: clone(v) for k, v in case.call.lay_out(case.sample(), case.subject.dtype).items()}
    with put_back(module), untouched_globals(case.seed), torch.no_grad():
        before = [len(value) for _, _, value in held]
        module(**kwargs)
        grown = [(name, parameter, len(value)) for (name, parameter, value), n in zip(held, before) if len(value) != n]
    if not grown:
        return None
    name, parameter, count = grown[0]
    return Verdict(
        "error",
        f"a call leaves {count} entries in {parameter}, a default argument of {name}: the next call finds them",
        kind="cache-stale",
        measured=count,
        allowed=0,
        example="one call without that argument",
        cause=f"{parameter} has a mutable default, which is made once for all calls",
        fix=f"{parameter}=None, and a new one inside",
    )
