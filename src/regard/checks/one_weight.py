"""A softmax over an axis of one entry: its weight is 1 whatever its score is, and what makes the score never learns."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence

from torch import nn

from regard.checks.case import Case, Verdict
from regard.checks.sites import watch

PLACE = re.compile(
    r"(^|_)(dim|axis|index|idx|loc|stride|padding|dilation|seed)$"
)  # names of axes and the like: no counts
SEEN = re.compile(r"a softmax over axis (-?\d+) of \(([\d, ]+)\) at (\S+)")


def softmax_of_one(case: Case, dead: Sequence[str]) -> Verdict | None:
    """For parameters without gradient: does a layer of one channel among them end in such a softmax, many of them per item?

    One map that is normalised over its own channel is a gate that is always open. Where some count of the author is 1 (heads,
    experts), the softmax may be over those, and open on purpose.
    """
    parts = dict(case.subject.pristine.named_modules())
    owners = [parts[n.rpartition(".")[0]] for n in dead]
    if not any(1 in (getattr(m, "out_channels", 0), getattr(m, "out_features", 0)) for m in owners):
        return None
    for note in watch(case, case.sample()).seen.unknown:
        found = SEEN.search(note)
        if found is None:
            continue
        shape = tuple(int(n) for n in re.findall(r"\d+", found.group(2)))
        if shape[int(found.group(1))] == 1 and math.prod(shape[1:]) > 1:
            return _always_one(case, dead, shape, found)
    return None


def over_one_made_up(case: Case) -> bool:
    """Beside tensors that were made up: does a softmax, of no attention that is understood, run over one entry? It may have had few by their size."""
    if not case.call.made_up:
        return False
    found = [m for note in watch(case, case.sample()).seen.unknown if (m := SEEN.search(note))]
    return any(int(m.group(2).split(",")[int(m.group(1))]) == 1 for m in found)


def _always_one(case: Case, dead: Sequence[str], shape: tuple[int, ...], found: re.Match[str]) -> Verdict:
    one = next((name for name, n in _counts(case.subject.pristine) if n == 1), None)
    return Verdict(
        "error" if one is None else "question",
        f"a softmax runs over an axis of size 1: all its weights are 1, and {', '.join(dead[:4])} never learn" + ("" if one is None else f"; {one} is 1: is it meant?"),
        kind="softmax-axis-singleton", measured=f"{len(dead)} parameters with a gradient of zero", allowed="0", where=found.group(3),
        example=f"scores {shape}, softmax over axis {found.group(1)}", cause="the scores have one channel, and the softmax runs over it",
        fix="a sigmoid for a gate, or a softmax over the places",
    )  # fmt: skip


def _counts(module: nn.Module) -> list[tuple[str, int]]:
    """Whole numbers that parts of the author's own classes keep or start from."""
    own = [m for m in module.modules() if not type(m).__module__.startswith("torch.")]
    kept = [(n, v) for m in own for n, v in vars(m).items() if type(v) is int and not n.startswith("_")]
    starts = [p for m in own for p in inspect.signature(type(m).__init__).parameters.values()]
    found = [*kept, *((p.name, p.default) for p in starts if type(p.default) is int)]
    return [(name, n) for name, n in found if not PLACE.search(name)]
