"""Which layout would have fitted: other packings, orders, transpositions, head counts and head orders, tried by number.

Nearest first: one thing differs, then two. A layout that fits is said, never used without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

from regard.adapt.found import Found
from regard.adapt.layout import PACKINGS
from regard.convert.build import layer_of
from regard.convert.verify import Conversion
from regard.core.errors import RegardError
from regard.core.mask.band import causal
from regard.core.position import Rotary

Change = dict[str, Any]
LIMIT = 400  # layouts; each costs two forward passes of seven tokens


def alternatives(found: Found) -> Iterator[Change]:
    """What to say otherwise, from the most likely on: keyword -> value."""
    groups = [group for group in _groups(found) if group]
    for group in groups:
        yield from group
    for first, second in combinations(groups, 2):
        for one in first:
            for other in second:
                yield {**one, **other}


def _groups(found: Found) -> list[list[Change]]:
    layout, facts = found.layout, found.facts
    packed = "qkv" in found.arrays or "kv" in found.arrays
    packings: list[Change] = [{"packing": name} for name in PACKINGS if name != layout.packing] if packed else []
    orders: list[Change] = [{"order": "".join(x)} for x in permutations("qkv") if "".join(x) != layout.order]
    turned: list[Change] = [{"transposed": not layout.transposed}]
    heads: list[Change] = [{"num_heads": n} for n in _other_heads(found) if n % (layout.num_kv_heads or 1) == 0]
    if layout.num_kv_heads is not None and layout.num_kv_heads == layout.num_heads:
        heads = [{"num_heads": n, "num_kv_heads": n} for n in _other_heads(found)]
    strided: list[Change] = [{"head_order": "blocks" if layout.head_order == "strided" else "strided"}]
    tiled: list[Change] = []
    if layout.kv_heads not in (1, layout.num_heads):
        tiled = [{"group_order": "grouped" if layout.group_order == "tiled" else "tiled"}]
    pairing: list[Change] = []
    if isinstance(facts.position, Rotary):
        other = "half" if facts.position.pairing == "interleaved" else "interleaved"
        pairing = [{"position": replace(facts.position, pairing=other)}, {"position": None}]
    masks: list[Change] = []
    if found.cases in ((), ("self",)):  # others are told the mask by us
        masks = [{"mask": causal()} if facts.mask is None else {"mask": None}]
    width = layout.head_dim or 0
    scales: list[Change] = [{"scale": 1.0}] if facts.scale is None else [{"scale": None}, {"scale": 1.0}]
    scales += [{"scale": float(found.arrays[min(found.arrays)].shape[-1]) ** -0.5}] if width == 0 else []
    return [packings, heads, orders, tiled, strided, turned, pairing, masks, scales]


def _other_heads(found: Found) -> list[int]:
    """Numbers of heads that fit the width, nearest to the one that was read first."""
    layout = found.layout
    rows = found.arrays["qkv" if "qkv" in found.arrays else "q"].shape[1 if layout.transposed else 0]
    rows = rows // 3 if "qkv" in found.arrays else rows
    fitting = [n for n in range(1, min(rows, 256) + 1) if rows % n == 0 and n != layout.num_heads]
    return sorted(fitting, key=lambda n: (max(n, layout.num_heads) / min(n, layout.num_heads), n))


def search(found: Found, measure: Any) -> tuple[Change | None, float]:
    """The first change whose difference is allowed, or None; and the least difference that was seen.

    Args:
        found: As it was read, which did not fit.
        measure: Called with our layer and the changed `Found`; a `Conversion`.
    """
    least = float("inf")
    for number, change in enumerate(alternatives(found)):
        if number >= LIMIT:
            break
        head_dim = {"head_dim": None} if "num_heads" in change else {}
        try:
            tried = found.told({**head_dim, **change})
            result: Conversion = measure(layer_of(tried), tried)
        except (RegardError, RuntimeError, ValueError):  # shapes that do not fit this way
            continue
        least = min(least, result.difference)
        if result.difference <= result.allowed:
            return change, result.difference
    return None, least


def words(change: Change) -> tuple[str, str]:
    """("per-head packing", "packing='per_head'"): what it matches, and what to pass."""
    said = {
        "packing": lambda x: f"{x.replace('_', '-')} packing",
        "order": lambda x: f"the order {x[0]}, {x[1]}, {x[2]}",
        "transposed": lambda x: "transposed matrices" if x else "matrices that are not transposed",
        "num_heads": lambda x: f"{x} heads",
        "num_kv_heads": lambda x: f"{x} key heads",
        "head_order": lambda x: f"{x} head channels",
        "group_order": lambda x: f"{x} query heads",
        "position": lambda x: "no rotary positions" if x is None else f"{x.pairing} rotary pairs",
        "mask": lambda x: "no mask" if x is None else f"the mask {x!r}",
        "scale": lambda x: "the usual scale" if x is None else f"a scale of {x:g}",
    }
    matched = " and ".join(said[name](value) for name, value in change.items())
    return matched, ", ".join(f"{name}={value!r}" for name, value in change.items())
