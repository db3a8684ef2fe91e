"""The author's words say batch first; the mixing says sequence first."""

from __future__ import annotations

import inspect
import re

from torch import nn

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.shape_names import layout_hint

BATCH_FIRST = r"[\[(]\s*(b|bs|bsz|batch(_?size)?)\s*,\s*\w+( \w+)?\s*,\s*\w+( \w+)?\s*[\])]|\bb (?!x\b)\w+ \(?(h|c|d)\b"  # "B x C" has no axis between

# what is drawn independently, many at a time, and is a batch under another name where a layer of torch's own mixes it
ITEMS = r"(n|num|number of)?[_ ]?(envs?|environments?|graphs?|mols?|molecules?|proteins?)"
BATCH = r"(b|bs|bsz|batch(_?size)?)\b"


def _items_first(case: Case, argument: str) -> str | None:
    """The author's words for this argument, (environments, agents, channels), where the second axis is no batch."""
    return case.evidence.says(
        rf"\b{re.escape(argument)}\s*[:=]?\s*[\[(]\s*{ITEMS}\s*,\s*(?!{BATCH})\w+\s*,\s*\w+\s*[\])]"
    )


def _has_switch(module: object) -> bool:
    try:
        return hasattr(module, "batch_first") or "batch_first" in inspect.signature(type(module)).parameters
    except (TypeError, ValueError):
        return False


def batch_is_said(case: Case) -> str | None:
    """The author's words, a pattern of einops or names of axes, by which the first axis is the batch."""
    if len(case.call.sources[case.call.query].layout.axes) == 2:
        argument = re.escape(next(iter(case.call.arguments)))
        return case.evidence.says(rf"\b{argument}\s*[:=]?\s*[\[(]\s*{BATCH}\s*,\s*(?!{BATCH})\w+\s*[\])]")
    said = case.evidence.says(BATCH_FIRST) or case.evidence.says(r"rearrange\([^)]*[\"']b \w+ \(?\w", where="source")
    argument = next(iter(case.call.arguments))
    if said is None and layout_hint(case.subject.forward, argument) == "BLD":
        said = f"the names given to {argument}.shape"
    return said


@rule("ATT302", kinds=("batch-first",))
def batch_first_contradiction(case: Case) -> Verdict | None:
    """Where the author writes (batch, length, channels), tokens of one item mix, not items of one position.

    What goes wrong: nn.MultiheadAttention and nn.TransformerEncoderLayer are sequence-first unless batch_first=True is
    given; batch-first tensors run without an error, and attention runs along the batch.
    Why it matters: every sample attends to the other samples at its own position.

    Bad:
        self.attn = nn.MultiheadAttention(d, h)                     # x is (B, L, D)
    Good:
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
    """
    source = case.call.sources[case.call.query]
    case.need(source.layout.axes in ("LBD", "BLD", "LB", "BL"), "no sequence with a batch axis")
    if not case.facts.get("axis_by_behaviour"):
        return None
    case.need(not _has_switch(case.subject.pristine), "it has a batch_first of its own, which is off")
    said = batch_is_said(case)
    inner = case.subject.is_module and any(
        isinstance(m, nn.MultiheadAttention) and not m.batch_first for m in case.subject.pristine.modules()
    )
    if said is None and inner:
        said = _items_first(case, next(iter(case.call.arguments)))
    if said is None or (len(source.layout.axes) == 2 and not inner):
        return None
    return Verdict(
        "error",
        f"the author says batch first ({said!r}), but tokens mix along the first axis and never along the second",
        kind="batch-first", measured="mixing along axis 0 only", allowed="mixing along axis 1 only",
        cause="an nn.MultiheadAttention with batch_first=False inside" if inner else "the layers inside are sequence-first",
        fix="pass batch_first=True, or transpose(0, 1) before and after", example=f"input {tuple(source.shape)}",
    )  # fmt: skip
