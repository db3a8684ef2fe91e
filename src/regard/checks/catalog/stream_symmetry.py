"""Two equal streams are treated alike."""

from __future__ import annotations

import re

from regard.checks.case import Case, Verdict
from regard.checks.infer import float_tensors
from regard.checks.rule import rule
from regard.checks.sites import watch

BOTH = r"both (streams|sides|inputs|modalities|sequences|directions)|each other|[bB]i-?[dD]irectional|symmetric|mutual|co-?attention"

SAME = r"(alike|equally|identically|symmetrically|the same( way)?|in the same way)\b"
ALIKE = (
    rf"\b(both|two)\b[^.;]{{0,40}}(?<!not )\btreated {SAME}|\btreats? (both|the two)\b[^.;]{{0,40}}\b{SAME}"
    r"|\b(swapp|exchang|switch)ing the (two )?(inputs|streams|images|sequences|sides) (only )?(swaps|exchanges|switches) the\b"
)


@rule("ATT310", kinds=("stream-asymmetry",))
def stream_symmetry(case: Case) -> Verdict | None:
    """A module that updates two streams with one set of weights gives swapped outputs for swapped inputs.

    Applies where two parameters are named as a pair (f0 and f1, left and right, a and b), or the text speaks of both streams,
    and every weight serves both. An error where the text promises that both are treated alike; elsewhere updates one after the
    other may be meant.
    What goes wrong: the first stream is updated before the second reads it.
    Why it matters: matching A with B differs from matching B with A.

    Bad:
        f0 = f0 + attn(f0, f1); f1 = f1 + attn(f1, f0)       # f0 is already new
    Good:
        d0, d1 = attn(f0, f1), attn(f1, f0); f0, f1 = f0 + d0, f1 + d1
    """
    names = list(case.call.arguments)
    declared, alike = case.design.symmetric, case.evidence.says(ALIKE)
    said = alike or case.evidence.says(BOTH)
    case.need(
        len(names) == 2 and case.call.is_cross and (declared is not None or _pair(*names) or said is not None),
        "no pair of equal streams",
    )
    case.need_determinism()
    same = {n: s.tokens for n, s in case.call.sources.items()}
    tokens = min(same.values())
    batch = case.sample(2, tokens=tokens)
    a, b = list(batch)
    straight = [t for _, t in float_tensors(case.raw(batch)) if t.ndim >= 2]
    swapped = [t for _, t in float_tensors(case.raw({a: batch[b], b: batch[a]})) if t.ndim >= 2]
    case.need(len(straight) == 2 and straight[0].shape == straight[1].shape, "it does not return two streams")
    run = watch(case, batch)
    shared = case.subject.is_module and all(
        count >= 2 for path, count in run.seen.calls.items() if path and _has_weights(case, path)
    )
    case.need(shared or declared is not None, "the two streams have weights of their own")
    change = max(
        case.difference(straight[0].double(), swapped[1].double()),
        case.difference(straight[1].double(), swapped[0].double()),
    )
    if change <= case.big:
        return None
    return Verdict(
        "error" if alike is not None else "warning",
        f"swapping {names[0]} and {names[1]} does not swap the outputs: they differ by {change:.2g} (relative)"
        + (f"; the text says {alike!r}" if alike is not None else ""),
        kind="stream-asymmetry",
        measured=change,
        allowed=case.tolerance,
        example=f"two streams of {tokens} tokens",
        cause="the first stream is updated before the second one reads it",
        fix="compute both updates from the old streams, then add them",
    )


def _pair(a: str, b: str) -> bool:
    pairs = {("left", "right"), ("a", "b"), ("x", "y"), ("first", "second"), ("u", "v"), ("src", "tgt")} - {
        ("src", "tgt")
    }
    swap = any(re.sub(p, q, a) == b for p, q in pairs if p in a and len(p) > 1)
    return (
        (a, b) in pairs
        or swap
        or (re.sub(r"\d+$", "", a) == re.sub(r"\d+$", "", b) and a != b and a[-1].isdigit() and b[-1].isdigit())
    )


def _has_weights(case: Case, path: str) -> bool:
    try:
        part = case.subject.pristine.get_submodule(path)
    except AttributeError:
        return False
    return any(True for _ in part.parameters(recurse=False))
