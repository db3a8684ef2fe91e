"""Forms to try for an argument, the likeliest first: by what its name, its place and the source of the forward say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.checks import forms as F
from regard.checks.forms import Form
from regard.checks.plan import Signature
from regard.checks.roles import call_role
from regard.checks.shape_names import axis_names
from regard.checks.signatures import signature_of
from regard.checks.sizes import vocabulary
from regard.checks.subject import Subject

STATE = re.compile(
    r"(.*_)?(h|c|hx|hc|hidden|states?|cell|carry)(_?(states?|t|0|prev))?|(prev|last|init(ial)?)_?(h|hidden|state)"
)
EDGES = re.compile(r"(.*_)?(edges?|edge_?(index|list|idx)|ei)")
FROM = re.compile(r"(edge_?)?(src|source|sender|row|head)s?(_?(idx|index|ids?|nodes?))?")
TO = re.compile(r"(edge_?)?(dst|dest|destination|receiver|col|tail)s?(_?(idx|index|ids?|nodes?))?")
OF_EDGES = re.compile(
    r"(edge|rel(ation)?|e)_?(attr(s|ibutes?)?|feat(s|ures?)?|weights?|types?|emb(edding)?s?|dist(ances?)?)"
)
POINTS = re.compile(r"(.*_)?(ref(erence)?(_?(points?|xy|pts))?|ref_windows|anchors?|sampling_locations)")
LEVELS = re.compile(r"(.*_)?(spatial_)?(shapes?|sizes?|hws?)|(.*_)?level_(shapes?|sizes?|hw)")
STARTS = re.compile(r"(.*_)?(level_)?start(_?(index|idx|indices|ids))?s?")
IDS = re.compile(
    r"(.*_)?(ids?|idx|index|indices|tokens?|items?|labels?|cats?|categor\w*|words?|types?|segments?|input|src|tgt|trg|target)"
)


LETTERS = {"b": "B", "n": "B", "t": "T", "f": "T", "c": "D", "d": "D", "h": "H", "w": "W"}  # b, t, c, h, w = x.shape


def options(subject: Subject, signature: Signature, name: str) -> Iterator[Form]:
    """Forms to try for one argument, the likeliest first."""
    out = [*_by_name(subject, signature, name)]
    unpacked = axis_names(subject.forward, name)
    ranks = {len(a) for a in unpacked}
    spelled = {axes for names in unpacked if len(axes := "".join(LETTERS.get(n[:1], "?") for n in names)) == 5}
    out = [f for f in out if f.axes in spelled] or out
    said = [f for f in out if not f.parts and len(f.axes) in ranks]
    yield from dict.fromkeys(said or out)


def _by_name(subject: Subject, signature: Signature, name: str) -> tuple[Form, ...]:
    plain, first = name.lower().strip("_"), name == signature.required[0]
    general = (*F.FLOATS, *F.IDS, *F.STATES[:4], *F.MAPS)
    number = signature_of(subject.forward).parameters[name].annotation in (int, "int")
    if number:
        return (Form("zero"),)
    if EDGES.fullmatch(plain):
        return (*F.EDGES, *general)
    lower = [n.lower() for n in signature.required]
    ends = any(FROM.fullmatch(n) for n in lower) and any(TO.fullmatch(n) for n in lower)
    if ends and (FROM.fullmatch(plain) or TO.fullmatch(plain)):
        return (*(F.ENDS if FROM.fullmatch(plain) else F.ENDS[::-1]), *general)
    if STARTS.fullmatch(plain) and not first:
        return (*F.STARTS, *general)
    if LEVELS.fullmatch(plain) and not first:
        return (*F.SHAPES, Form("zero"), *general)
    if POINTS.fullmatch(plain) and not first:
        return (*F.POINTS, *general)
    if name in signature.masks:
        return (*F.HIDERS, *F.MASKS) if name in signature.hiding else (*F.MASKS, *F.HIDERS)
    if name in signature.lengths:
        return (*F.LENGTHS, *general)
    if name in signature.cache_positions or call_role(name) == "positions":
        return (*F.PLACES, *F.TABLES, *general)
    if name in signature.positions:
        return (*F.TABLES, *F.PLACES, *general)
    if STATE.fullmatch(plain) and not first:
        return (*F.STATES, *F.FLOATS, *F.IDS)
    if first and vocabulary(subject.pristine) is not None and (IDS.fullmatch(plain) or call_role(name) == "self"):
        return (*F.IDS, *F.FLOATS)
    if ends or any(EDGES.fullmatch(n) for n in lower):
        if OF_EDGES.fullmatch(plain):
            return (*F.OF_EDGES, *general)
        return (*F.GRAPH, *general)
    if any(n.startswith("adj") for n in lower):  # edges of one graph, or of several
        return (*general, *F.GRAPH[:1])
    return general


def levels(subject: Subject) -> int:
    """How many maps a pyramid has, where the module says so."""
    for part in subject.pristine.modules():
        for name, value in vars(part).items():
            if (
                type(value) is int
                and re.fullmatch(r"(n|num|nb)_?(feature_)?(levels?|scales?)|levels|L", name)
                and 0 < value <= len(F.LEVELS)
            ):
                return value
    return 2
