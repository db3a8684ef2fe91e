"""The layers of a model: attention sites whose modules have the same place in a stack ("layers.0.attn", "layers.1.attn" ...)."""

from __future__ import annotations

import re
from collections import defaultdict

from regard.intercept import Site

FULL = re.compile(r"bidirectional|non_?causal|full|global|cross", re.IGNORECASE)
FEWEST = 3  # layers of which a majority can be told


def stacks(sites: list[Site]) -> list[list[Site]]:
    """Sites grouped by their module's path with every number left out; only groups of several layers."""
    groups: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        groups[re.sub(r"\d+", "*", site.path)].append(site)
    return [g for path, g in groups.items() if "*" in path and len({s.path for s in g}) > 1]


def odd_ones(stack: list[Site], has: list[bool]) -> list[Site]:
    """The few layers that lack what most have, unless they are meant to be of another kind: another class that does not
    descend from theirs, a name that says so, or a switch of their own that stands differently."""
    few = [s for s, h in zip(stack, has) if not h]
    most = [s for s, h in zip(stack, has) if h]
    if len(stack) < FEWEST or not few or len(most) <= len(few):
        return []
    return few if all(_alike(s, most[0]) for s in few) else []


def _alike(site: Site, other: Site) -> bool:
    a, b = site.innermost, other.innermost
    if a is None or b is None or not (isinstance(a, type(b)) or isinstance(b, type(a))):
        return False
    return not FULL.search(type(a).__name__) and _switches(a) == _switches(b)


def _switches(module: object) -> dict[str, bool]:
    return {name: value for name, value in vars(module).items() if isinstance(value, bool)}
