"""Turns the `CALL` dictionary of a case (how its author says it is called) into the declaration that the checker reads."""

from __future__ import annotations

import re
from typing import Any

from regard import Design

SAME = (
    "layout",
    "inputs",
    "causal",
    "grid",
    "cache",
    "embed_dim",
    "heads",
    "kv_heads",
    "head_dim",
    "returns",
    "row_sum",
)
SAME += ("sparse", "queries_compete", "attention", "qk_norm", "logits_bound", "options", "dropout")
RENAMED = {"query_arg": "query", "context_arg": "context", "declared_scale": "scale", "symmetric_inputs": "symmetric"}
GATES = {"channel": "channel", "spatial-gate": "spatial", "coordinate": "coordinate"}
NAMED_POSITIONS = ("none", "rope", "alibi", "relative", "relative-2d", "decay", "learned", "sinusoidal")
# keys without a field: "probe" (where q and k are), "variant", "channels", "axis" and "note" are for the author's own proof


def design(call: dict[str, Any]) -> Design:
    """The declaration of one case.

    >>> design({"attention": "causal", "causal": True, "inputs": {"x": (2, 6, 32)}, "mask": None}).causal
    True
    """
    said = {key: call[key] for key in SAME if call.get(key) is not None}
    said |= {field: call[key] for key, field in RENAMED.items() if call.get(key) is not None}
    if any(isinstance(shape, int) for shape in said.get("inputs", {}).values()):  # numbers such as H and W are inferred
        del said["inputs"]
    if call.get("mask"):
        said["mask"] = mask_of(call["mask"])
    if call.get("position") in NAMED_POSITIONS:
        said["position"] = call["position"]
    if call.get("attention") in GATES and call.get("variant") not in ("cbam", "scse", "bam", "simam", "triplet"):
        said["gate"] = GATES[call["attention"]]
    if call.get("axis") == "memory":  # tokens read learned memory, so nothing of them is a key
        said["row_sum"] = "any"
    if isinstance(window := call.get("window"), int | tuple):
        said["window"], said["shift"] = window, call.get("shift")
    elif isinstance(window, str) and (grid := re.match(r"grid (\d+)x(\d+)", window)):
        said["window"] = grid.group(0)
    return Design(**said)


def mask_of(mask: dict[str, Any]) -> dict[str, Any]:
    """A mask in the words of Design: an additive one has no polarity, it says so in its dtype."""
    if mask.get("polarity") == "additive":
        return {**{k: v for k, v in mask.items() if k != "polarity"}, "dtype": "additive"}
    return dict(mask)
