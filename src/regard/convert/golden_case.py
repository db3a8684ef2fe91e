"""Where a framework is not installed: its stored weights, read by the same rule, against its stored outputs."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import torch

from regard.adapt.found import Adapter
from regard.convert.build import layer_of
from regard.convert.verify import Case, Conversion, allowance, ours
from regard.core.errors import ConversionError

STORED = ("flax", "keras")


def golden_case(adapter: Adapter, door: str) -> Conversion:
    """Read the stored weights of this framework and compare with its stored outputs.

    Raises:
        ConversionError: There is no stored case: weights alone say too little of how they lie.
    """
    if door not in STORED:
        raise ConversionError(
            "weights alone cannot be run, so nothing shows whether they were read rightly; give the module itself, "
            "example=(input, output) of it, or verify=False"
        )
    stored = load(door)
    found = adapter.find({n[8:]: x for n, x in stored.items() if n.startswith("weights.")}, {})
    layer = layer_of(found)
    apart, largest = {}, 0.0
    with torch.no_grad():
        for case, expected in cases_of(stored):
            mine = ours(layer, case)
            apart[case.name] = (mine - expected).abs().amax().item()
            largest = max(largest, mine.abs().amax().item())
    made = Conversion(door, apart, allowance(largest), f"golden case of {stored['made_with']}", found.layout)
    if not made.difference <= made.allowed:
        raise ConversionError(f"the stored case of {door} is not met: {made}")
    return made


def load(door: str) -> dict[str, Any]:
    """The arrays of a stored case, and "made_with" as text."""
    with (files("regard.convert") / "golden" / f"{door}.npz").open("rb") as file, np.load(file) as stored:
        return {name: str(stored[name]) if name == "made_with" else stored[name] for name in stored.files}


def cases_of(stored: dict[str, Any]) -> list[tuple[Case, torch.Tensor]]:
    """Every stored call with its output."""
    made = []
    for name in (n[7:] for n in stored if n.startswith("output.")):
        attend = torch.from_numpy(stored[f"attend.{name}"])
        context = torch.from_numpy(stored["context"]) if name == "cross" else None
        case = Case(name, torch.from_numpy(stored["query"]), context, attend, attend)
        made.append((case, torch.from_numpy(stored[f"output.{name}"])))
    return made
