"""Rotary scores depend on the distance only."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import torch

from regard.checks.case import Case, Verdict
from regard.checks.positions import Places, distance_spread, places
from regard.checks.roles import call_role
from regard.checks.rule import rule
from regard.checks.sites import recorded

ALLOWED = 2e-5
FAR = 300  # tokens: more than bfloat16 counts one by one
COARSE = 0.1  # plain rounding of queries and keys stays below 0.02
ROUGH = 0.02  # below: rounding of the angles; above: another formula
ANGLES = r"rope|rot|freq|angle|theta|\bcos|\bsin|_cos|_sin|\bpos|_pos|pe\b"
WORDS = r"\brope\b|\brotary|rotate_half|apply_rot|_rope\b|\brope_|\.rope|rotaryembedding"


@rule("ATT801", kinds=("rope-pairing", "rope-precision"))
def rotary_distance(case: Case) -> Verdict | None:
    """With rotary positions, the scores of identical tokens depend only on how far apart they are.

    What goes wrong: cosines are laid out for one pairing of channels and the rotation uses the other; angles are computed
    in 16 bits, so that positions collapse.
    Why it matters: relative positions are what rotary is for; generation beyond the training length fails first.

    Bad:
        angle = angles.repeat_interleave(2, -1); x = x * angle.cos() + rotate_half(x) * angle.sin()
    Good:
        angle = torch.cat([angles, angles], -1); x = x * angle.cos() + rotate_half(x) * angle.sin()
    References: Su et al. 2021, section 3.4.
    """
    case.need_determinism()
    tables = _made_up_angles(case)
    case.need(not tables, f"its angles come from outside ({', '.join(tables)}) and were made up")
    lengths: list[int | None] = [None]
    if case.call.free_length and len(case.call.sources[case.call.query].grid) == 1:
        lengths += [40, 300]
    looked = False
    for n in lengths:
        try:
            found = [p for p in places(case, tokens=n) if p.rotary]
        except Exception:
            if n is None:
                raise
            continue
        for p in found:
            looked = True
            spread = distance_spread(p.scores)
            if spread > max(ALLOWED, 1e-2 * case.tolerance):
                return _verdict(case, p, spread, p.scores.shape[-1], later=n is not None)
        if not looked:  # what does not rotate a few tokens does not rotate many
            break
    case.need(looked, "no rotation of queries and keys was seen on a single line of tokens")
    return _in_bfloat16(case) if len(lengths) > 1 else None


def _made_up_angles(case: Case) -> list[str]:
    """Arguments named for angles or positions that got random numbers."""
    found = []
    for name, value in case.call.fixed.items():
        made = value(case.sample(), case.subject.dtype) if callable(value) else None
        random = isinstance(made, torch.Tensor) and (made.is_floating_point() or made.is_complex()) and made.numel() > 1
        if random and re.search(ANGLES, name.lower()):
            found.append(name)
    return found


def _in_bfloat16(case: Case) -> Verdict | None:
    """The same with the module in bfloat16: rounded queries and keys cost a hundredth, positions counted in 8 bits much more."""
    subject = copy.copy(case.subject)
    subject.dtype = torch.bfloat16
    low = replace(case, subject=subject, facts={k: v for k, v in case.facts.items() if k == "init"}, notes=[])
    try:
        spreads = [distance_spread(p.scores) for p in places(low, tokens=FAR) if p.rotary]
    except Exception:  # it does not run in that type, or at that length
        return None
    worst = max((s for s in spreads if s == s), default=0.0)
    if worst < COARSE:
        return None
    return Verdict(
        "question", f"in bfloat16, rotated scores of equal distance differ by {worst:.2g} (relative) at length {FAR}: positions or angles are computed in 16 bits; is it meant for float32 only?",
        kind="rope-precision", measured=worst, allowed=COARSE, example=f"{FAR} identical tokens, the module in bfloat16",
        cause="positions or frequencies take the dtype of the input: above 256, bfloat16 cannot count by ones", fix="compute angles in float32 or more, and cast cosines and sines",
    )  # fmt: skip


def _verdict(case: Case, p: Places, spread: float, length: int, later: bool) -> Verdict | None:
    if spread < 5e-4 and length > 50 and case.subject.dtype.itemsize < 8:
        return None
    fine = (
        spread < ROUGH or later
    )  # distances that hold at short lengths and fail at long ones are a matter of precision
    return Verdict(
        "error" if not (fine and spread < 1e-4) else "question",
        f"rotated scores of equal distance differ by {spread:.2g} (relative) at length {length}: " + ("the angles are too coarse" if fine else "the rotation does not keep distances"),
        kind="rope-precision" if fine else "rope-pairing", measured=spread, allowed=ALLOWED, where=p.site.where or None, example=f"{length} identical tokens",
        cause="positions or angles are computed in 16 bits" if fine else "cosines and sines are laid out for another pairing of channels than the rotation uses",
        fix="compute angles in float32 or more, and cast the rotated result" if fine else "cat([angles, angles], -1) goes with rotate_half; repeat_interleave(2, -1) with (x[..., 0::2], x[..., 1::2])",
    )  # fmt: skip


@rule("ATT802", kinds=("rope-wrong-axis",))
def rotary_axis(case: Case) -> Verdict | None:
    """Where the author speaks of rotary positions, queries of identical tokens differ from place to place.

    What goes wrong: the rotation runs over the head axis, since (B, T, H, D) is given where (B, H, T, D) is expected.
    Why it matters: heads get angles; tokens get none, and their order is invisible.

    Bad:
        q = rope(q)                             # q is (B, T, H, D); rope reads axis -2 as the tokens
    Good:
        q = rope(q.transpose(1, 2))
    """
    said = case.evidence.says(WORDS, where="name doc source")
    case.need(said is not None or case.design.position == "rope", "nothing speaks of rotary positions")
    given = case.call.fixed  # position numbers can be made up, a table of angles cannot
    tables = [n for n in case.signature.positions if given.get(n) is None or call_role(n) == "bias"]
    case.need(not tables, f"its angles come from outside ({', '.join(tables)}) and were not given")
    case.need_determinism()
    found = places(case)
    case.need(bool(found), "queries, keys and scores are not known")
    if any(p.rotary or p.absolute or p.added for p in found):
        return None
    for p in found:
        heads = recorded(p.site.query)
        if heads.ndim == 4 and heads.shape[1] > 1:
            return Verdict(
                "error", f"the source speaks of rotary positions ({said or 'declared'}), but queries and keys of identical tokens are equal at every place: the order of tokens has no effect",
                kind="rope-wrong-axis", measured=0.0, allowed="a rotation along the tokens", where=p.site.where or None, example=f"{p.scores.shape[-1]} identical tokens", cause="the rotation runs along another axis (heads), or its result is not used", fix="rotate (B, H, T, D) along T: transpose before the rotation",
            )  # fmt: skip
    return None
