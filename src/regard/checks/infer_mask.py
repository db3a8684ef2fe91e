"""What a mask argument wants: every shape, dtype and polarity is tried; the one that hides, and hides only that, is taken.

When none does, the encoding that the author's words or a name of fixed meaning ask for is kept, so that the rules can say
what goes wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case
from regard.checks.influence import replace_token
from regard.checks.mask_use import ALIKE, DECLARED_DTYPES, SHAPES, MaskUse, encodings, lengths
from regard.checks.subject import describe_error

HEAD_NAMES = r"(n|num|nb)?_?heads?|h|nhead|n_h|heads_?\w*|n"


GENERAL = {
    "attn", "attention", "key", "query", "src", "tgt", "self", "causal", "pad", "padding", "input", "x", "kv", "cross",
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One encoding tried: does it run, change anything, leak hidden keys, keep visible ones, and equal no mask when all is kept?"""

    use: MaskUse
    leak: float
    changes: bool
    visible: bool
    neutral: bool

    @property
    def works(self) -> bool:
        return self.leak <= 1.0 and self.changes and self.visible and self.neutral


def infer_masks(case: Case) -> list[MaskUse]:
    """How each mask argument is filled. Arguments for which nothing runs are left out, with a note."""
    found = []
    quoted = [n for n in case.signature.unknown if _may_be_mask(case, n)]  # no mask by name, one by its description
    names = [
        *case.signature.masks,
        *quoted,
        *(n for n in case.signature.positions if "bias" in n and "mask" not in n),
        *case.signature.lengths,
    ]
    if case.design.mask_argument and case.design.mask_argument not in names:
        names.append(case.design.mask_argument)
    for name in names:
        call = call_for(case, name)
        owner = _owner(case, name, call)
        if owner is not None:
            case.notes.append(f"{name}: it goes with {owner}, which is not given")
            continue
        use = infer_mask(case, name, call)
        if (
            use is not None
            and name in case.signature.positions
            and not (use.works or (use.neutral and case.evidence.dtype(name) == "additive"))
        ):
            case.notes.append(
                f"{name}: a bias that the module makes itself when none is given, or one that hides nothing; not taken for a mask"
            )
            continue
        if use is not None:
            found.append(use)
    return found


def _owner(case: Case, name: str, call: Call) -> str | None:
    """The optional argument that a mask belongs to by its name (prepend_mask, prepend_embeds), if this call leaves it out."""
    stem = name.removesuffix("_mask")
    if stem == name or stem in GENERAL:
        return None
    flags = case.signature.options  # "memory_is_causal" is no memory
    named = [p for p in case.subject.signature().parameters if stem in p and "mask" not in p and p not in flags]
    return named[0] if named and not set(named) & set(call.arguments) else None


def _may_be_mask(case: Case, name: str) -> bool:
    """Optional, None by default, and described as true or 1 where something holds."""
    return case.subject.signature().parameters[name].default is None and case.evidence.says_polarity(name)


def call_for(case: Case, name: str) -> Call:
    """Masks of a context need the call that has one; masks that need equal lengths get them."""
    if name in case.facts.get("needs_heads", {}):
        return case.facts["needs_heads"][name]
    if name in case.facts.get("needs_equal", ()):
        return case.facts["equal_lengths"]
    if case.cross is not None and any(
        w in name for w in ("context", "memory", "encoder", "cross", "kv", "src_mask", "v_mask", "k_mask")
    ):
        return case.cross
    return case.call


def infer_mask(case: Case, name: str, call: Call) -> MaskUse | None:
    polarity, said = case.design.mask_polarity, "the design"
    if polarity is None or name != case.design.mask_argument:
        polarity, said = case.evidence.polarity(name)
        if polarity is not None and not case.evidence.meant_by_name(name, lambda: _takes_key_mask(case, name, call)):
            polarity = None
    trials, errors = list[Trial](), list[str]()
    special = _batch_of_heads(case, name, call)
    if special is not None:
        return special
    for use in _in_order(case, call, name, trials):
        trial = try_use(case, call, use, errors)
        if trial is None or (use.dtype == "fraction" and not (trial.changes and trial.neutral)):  # 1 must keep all
            continue
        trials.append(trial)
        if trial.works and _agrees(trial, trials, polarity):
            return _chosen(trial, polarity, said)
    if not trials and call.is_cross and call.sources[call.keys].tokens != call.sources[call.query].tokens:
        found = infer_mask(case, name, _equal_lengths(case, call))
        if found is not None:
            case.facts.setdefault("needs_equal", []).append(name)
        return found
    if not trials:
        case.notes.append(f"{name}: no mask that we tried was accepted ({errors[0] if errors else 'nothing tried'})")
        return None
    found = _chosen(_best(trials, polarity or _convention(case, name), name), polarity, said)
    return replace(found, added=any(t.changes and t.use.dtype == "additive" for t in trials))


def _convention(case: Case, name: str) -> str | None:
    """What True means in the other mask arguments, where that is known and the same in all: one signature, one convention."""
    known = {case.evidence.polarity(n)[0] for n in case.signature.masks if n != name} - {None}
    return next(iter(known)) if len(known) == 1 else None


def _takes_key_mask(case: Case, name: str, call: Call) -> bool:
    """Does a 0/1 mask of (items, keys) run at all?"""
    uses = [MaskUse(name, s, "BS", dtype) for s in _streams(case, call, name) for dtype in ("bool", "int")]
    return any(try_use(case, call, use, []) is not None for use in uses)


def _in_order(case: Case, call: Call, name: str, trials: list[Trial]) -> Iterator[MaskUse]:
    """The encodings that the author's words leave; when none of them ran (words about a bias beside the mask), all."""
    sources, heads = _streams(case, call, name), case.evidence.number(HEAD_NAMES) or 1
    left = [use for source in sources for use in _options(case, name, source)]
    for use in left:
        if use.dtype != "fraction" or not any(t.changes for t in trials):  # only where counts hide nothing
            yield use
    if not trials and call.skip:
        yield from (replace(u, lead=call.skip) for u in left)
    if not trials:
        yield from (u for source in sources for u in encodings(name, source, heads) if u not in left)


def _batch_of_heads(case: Case, name: str, call: Call) -> MaskUse | None:
    """A mask documented as (batch, keys) that runs only for as many items as there are heads: it is taken for (heads, keys)."""
    if case.evidence.shape(name) != "BS" or name in case.facts.get("needs_heads", {}):
        return None
    heads = case.evidence.number(HEAD_NAMES)
    source = call.sources[call.query]
    if heads is None or heads < 2 or source.batch == heads or not source.layout.batched:
        return None
    uses = [o for o in _options(case, name, call.keys) if o.shape == "BS"][:4]
    if not uses or any(try_use(case, call, u, []) is not None for u in uses):
        return None
    many = call.but(sources={n: replace(s, batch=heads) for n, s in call.sources.items()})
    polarity, said = case.evidence.polarity(name)
    for use in uses:
        trial = try_use(case, many, use, [])
        if trial is not None and (polarity is None or use.polarity == polarity):
            case.facts.setdefault("needs_heads", {})[name] = many
            return _chosen(trial, polarity, said)
    return None


def _equal_lengths(case: Case, call: Call) -> Call:
    """The call with as many keys as queries, for masks that only run so."""
    query = call.sources[call.query]
    sources = {n: replace(s, grid=query.grid) for n, s in call.sources.items()}
    equal = call.but(sources=sources)
    case.facts["equal_lengths"] = equal
    return equal


def _streams(case: Case, call: Call, name: str) -> list[str]:
    """Which stream a mask hides, the likeliest first."""
    if not call.is_cross:
        return [call.query]
    on = (
        case.design.mask.get("on") if isinstance(case.design.mask, dict) and name == case.design.mask_argument else None
    )
    if on == "query":
        return [call.query]
    if call.sources[call.query].tokens == 1:
        return [call.keys]
    return [call.keys, call.query]


def _options(case: Case, name: str, source: str) -> list[MaskUse]:
    heads = case.evidence.number(HEAD_NAMES) or 1
    if name in case.signature.lengths:
        return lengths(name, source)
    options = list(encodings(name, source, heads))
    said, dtype = (
        case.evidence.polarity(name)[0] if case.evidence.says_polarity(name) else None,
        case.evidence.dtype(name),
    )
    if case.evidence.is_zero_or_one(name):
        options = [o for o in options if o.dtype != "additive"]  # a 0/1 vocabulary is no additive mask
    if dtype in ("bool", "int"):
        others = [o for o in options if o.dtype != dtype and said is None]
        if case.evidence.dtype_only(name) == dtype:  # "bool": what is added to the scores is none
            others = [o for o in others if o.dtype != "additive"]
        options = [o for o in options if o.dtype == dtype] + others
    if isinstance(case.design.mask, dict) and name == case.design.mask_argument:
        dtype = DECLARED_DTYPES.get(str(case.design.mask.get("dtype", "bool")).removeprefix("torch."), "bool")
        options = [o for o in options if o.dtype == dtype] or options
    if dtype == "additive":
        options = [o for o in options if o.dtype == "additive"] or options
    polarity, shape = case.evidence.polarity(name)[0], case.evidence.shape(name)
    return sorted(options, key=lambda o: _rank(o, dtype, polarity, shape))


def _rank(use: MaskUse, dtype: str | None, polarity: str | None, shape: str | None) -> tuple[int, int]:
    """The shape that the words name, then usual ones; within a shape the dtype and polarity that the words name."""
    return (
        -1 if use.shape == shape else SHAPES.index(use.shape),
        (0 if use.dtype == dtype else 1) * 3
        + (2 if polarity and use.dtype == "additive" else 0 if polarity in (None, use.polarity) else 1),
    )


def pattern(batch: int, keys: int) -> Tensor:
    """(B, S): item 0 hides an inner key and the last, the others other inner keys; the first key always stays."""
    keep = torch.ones(batch, keys, dtype=torch.bool)
    if keys < 2:
        return keep
    keep[0, [2 % keys or 1, keys - 1]] = False
    for b in range(1, batch):
        keep[b, (keys - 1 - b) % keys or 1] = False
    return keep


def try_use(case: Case, call: Call, use: MaskUse, errors: list[str]) -> Trial | None:
    """What this encoding does; None, with the reason in `errors`, where it does not run."""
    batch = case.sample(1, call=call)
    keep = pattern(*batch[use.source].shape[:2])
    if use.shape in ALIKE:
        keep = keep[:1].expand_as(keep).contiguous()
    if use.shape == "lengths":
        keep = torch.arange(keep.shape[1])[None] < (keep.shape[1] - torch.arange(keep.shape[0]) % 3)[:, None]
    try:
        none = case.run(batch, call=call)
        some = masked(case, call, use, batch, keep)
        every = masked(case, call, use, batch, torch.ones_like(keep))
        if some.shape != none.shape:
            errors.append(f"a mask of shape {use.shape} changes the shape of the output")
            return None
        leak = _leak(case, call, use, batch, keep, some)
        visible = _visible(case, call, use, batch, keep, some)
    except Exception as error:
        errors.append(describe_error(error))
        return None
    return Trial(
        use,
        leak / case.tolerance,
        case.difference(some, none) > case.tolerance,
        visible,
        case.difference(every, none) <= case.tolerance,
    )


def masked(case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor, **how: Any) -> Tensor:
    """The output with this mask."""
    queries = batch[call.query].shape[1]
    return case.run(
        batch,
        call=call,
        extra=use.arguments(keep, queries, how.get("dtype") or case.subject.dtype),
        **how,
    )


def real_rows(call: Call, use: MaskUse, keep: Tensor, out: Tensor) -> Tensor:
    """(B, M) bool: the output rows that count. Rows of hidden tokens of a self-attention do not."""
    if call.follows and use.source == call.query and out.shape[1] == keep.shape[1]:
        return keep
    return torch.ones(out.shape[:2], dtype=torch.bool)


def _leak(case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor, out: Tensor) -> float:
    worst = 0.0
    for size in (1.0, 5.0):
        moved = {n: x.clone() for n, x in batch.items()}
        for b, s in (~keep).nonzero().tolist():
            replace_token(moved[use.source], b, s, number=b * 50 + s, size=size)
        rows = real_rows(call, use, keep, out)
        worst = max(worst, case.difference(masked(case, call, use, moved, keep)[rows], out[rows]))
    return worst


def _visible(case: Case, call: Call, use: MaskUse, batch: Batch, keep: Tensor, out: Tensor) -> bool:
    """Every item has a kept key (not the row's own) that still matters."""
    for b in range(keep.shape[0]):
        moved = {n: x.clone() for n, x in batch.items()}
        replace_token(moved[use.source], b, 0, number=77 + b)
        change = (masked(case, call, use, moved, keep)[b] - out[b]).abs().amax(-1)
        rows = real_rows(call, use, keep, out)[b].clone()
        if rows.shape[0] > 1:
            rows[0] = False
        if not bool((change[rows] > case.tolerance * max(float(out[b].abs().nan_to_num(0).max()), 1e-12)).any()):
            return False
    return True


def _agrees(trial: Trial, trials: list[Trial], polarity: str | None) -> bool:
    """Does this encoding mean what the author says? An additive one says nothing of True, but where a boolean works the other
    way round, as with a kernel that takes both, it must not hide that.
    """
    if polarity is None or trial.use.dtype != "additive":
        return polarity in (None, trial.use.polarity)
    return not any(t.works and t.use.dtype != "additive" and t.use.polarity != polarity for t in trials)


def _best(trials: list[Trial], polarity: str | None, name: str) -> Trial:
    """One that works; else the first usual encoding that changes anything; additive only when nothing else runs."""
    agreeing = [t for t in trials if _agrees(t, trials, polarity)] or trials
    additive = any(t.use.dtype != "additive" for t in agreeing)
    for wanted in (
        lambda t: t.works,
        lambda t: t.changes and not (additive and t.use.dtype == "additive"),
        lambda t: not (additive and t.use.dtype == "additive"),
    ):
        if found := next(filter(wanted, agreeing), None):
            return found
    return agreeing[0]


def _chosen(trial: Trial, polarity: str | None, said: str) -> MaskUse:
    said = said if polarity is not None and trial.use.dtype != "additive" else ""
    return replace(trial.use, works=trial.works, said=said, changes=trial.changes, neutral=trial.neutral)
