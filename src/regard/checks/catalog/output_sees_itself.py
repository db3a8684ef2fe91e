"""A token's output depends on that token."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.checks.case import Batch, Case, Verdict
from regard.checks.edge_of_map import edge_of_map
from regard.checks.influence import Influence, influence, replace_token
from regard.checks.redraw import SEEDS, redrawn
from regard.checks.rule import rule
from regard.checks.sites import attention_sites
from regard.intercept import Site


@rule("ATT307", kinds=("window-reverse", "chunk-tail", "head-merge-order", "output-unused", "causal-strict"))
def output_sees_itself(case: Case) -> Verdict | None:
    """In self-attention, the output at a position depends on the input at that position, at every length that runs.

    On a map whose last rows or columns fill no block, it is asked whether the sides have to be multiples of the block.
    Where nothing matters at a short length, longer ones say whether less than a whole block is dropped.
    What goes wrong: windows or heads are put back in the wrong places; the tail that does not fill a chunk is dropped.
    Why it matters: outputs stand beside the wrong tokens, or stand for nothing.

    Bad:
        y = windows[:, idx]                      # idx took them apart; its inverse puts them back
    Good:
        y = windows[:, idx.argsort()]
    """
    case.need(case.call.follows and not case.call.is_cross, "outputs do not stand for the tokens of one stream")
    case.need_determinism()
    base = influence(case)
    case.need(base.square, "as many outputs as tokens are needed")
    sites = attention_sites(case)
    case.need(
        bool(base.sees.any()) or not _reacts(case),
        "no single token matters and the whole input does: features are shut here (a ReLU), or the tokens are averaged",
    )
    case.need(
        not case.call.made_up or bool(base.sees.any()) or all(s.shape is None or s.shape[-1] > 1 for s in sites),
        "keys were made up, one for each item: queries have no say",
    )
    twice = _twice(case, base)
    verdict = edge_of_map(case, twice) or _judge(twice, None, sites)
    n = case.call.sources[case.call.query].tokens
    nothing = verdict if not bool(base.sees.any()) else None
    if (verdict is not None and nothing is None) or not case.call.free_length:
        return verdict
    tried = {n: base}
    for extra in (1, 3, n + 1, *((2 * n + 3, 4 * n + 2, 9 * n + 2) if nothing is not None else ())):
        try:
            longer = influence(case, tokens=n + extra)
        except Exception:
            continue
        if nothing is not None:
            if not longer.square or not bool(longer.sees.any()):
                continue
            return _judge(longer, n + extra, sites) or _too_short(nothing, n, n + extra)
        verdict = _judge(longer, n + extra, sites) if longer.square else None
        if verdict is not None:
            return verdict
        tried |= {n + extra: longer} if longer.square else {}
    return nothing if nothing is not None or case.facts.get("causal") else _tail(case, tried)


def _too_short(nothing: Verdict, short: int, long: int) -> Verdict:
    """Nothing is computed at one length, and something at a longer one: less than a whole block is dropped."""
    return replace(
        nothing,
        message=f"at length {short}, no input token has any influence on any output; at length {long} tokens have",
        kind="chunk-tail",
        cause="tokens that do not fill a block are left out",
        fix="range(0, length, block), or pad to a multiple of the block and mask",
    )


def _tail(case: Case, tried: dict[int, Influence]) -> Verdict | None:
    """At some lengths every token reads every other one; at another the last ones are read by nobody but themselves."""
    strides = [getattr(m, "stride", 1) for m in case.subject.pristine.modules()] if case.subject.is_module else []
    strided = any(n > 1 for s in strides for n in (s if isinstance(s, tuple) else (s,)) if isinstance(n, int))
    left = {n: _left_alone(found) for n, found in tried.items()}
    cut = next((n for n, count in left.items() if count), None)
    if cut is not None and not strided and any(not c and bool(tried[n].sees.all()) for n, c in left.items()):
        return Verdict(
            "error", f"at length {cut}, the last {left[cut]} tokens read no other token, and the ones before read all; at other lengths every token reads all",
            kind="chunk-tail", measured=left[cut], allowed=0, example=f"length {cut}",
            cause="queries that do not fill the last block are left out", fix="range(0, length, block), or pad to a multiple of the block",
        )  # fmt: skip
    unread = {}
    for length, found in tried.items():
        others = found.sees | torch.eye(length, dtype=torch.bool)
        full = others.all(0).long()
        unread[length] = length - int(full.cumprod(0).sum())
        rest = found.sees & ~torch.eye(length, dtype=torch.bool)
        if unread[length] and bool(rest[:, length - unread[length] :].any()):
            return None  # some rows read them: no plain case
    short = [n for n, count in unread.items() if 0 < count < n - 1]
    if strided or not short or not any(count == 0 for count in unread.values()):
        return None
    n = short[0]
    return Verdict(
        "error",
        f"at length {n}, no token reads the last {unread[n]}; at length {next(k for k, c in unread.items() if c == 0)} every token reads all",
        kind="chunk-tail",
        measured=unread[n],
        allowed=0,
        example=f"length {n}",
        cause="keys that do not fill the last block are left out",
        fix="range(0, length, block), or pad to a multiple of the block and mask",
    )


def _left_alone(found: Influence) -> int:
    """How many tokens at the end see only themselves while all before them see everything; 0 if that is not so."""
    full = found.sees.all(-1).long()
    whole = int(full.cumprod(0).sum())
    rest = found.sees[whole:]
    alone = torch.eye(found.sees.shape[1], dtype=torch.bool)[whole:]
    return len(rest) if 0 < whole < len(found.sees) and torch.equal(rest, alone) else 0


def _reacts(case: Case) -> bool:
    """Does the output change with the whole input, at some size or with other weights?"""
    base = case.base[1]
    for number, size in ((1, 1.0), (2, 5.0), (3, -25.0), (4, 25.0)):
        if case.difference(case.run(_scaled(case.sample(number), size)), base) > case.tolerance:
            return True
    for seed in SEEDS if case.subject.is_module else ():
        a, b = (case.run(_scaled(case.sample(n), 5.0), module=redrawn(case, seed)) for n in (1, 2))
        if case.difference(a, b) > case.tolerance:
            return True
    return False


def _scaled(batch: Batch, size: float) -> Batch:
    return {n: x * size if x.is_floating_point() else x for n, x in batch.items()}


def _twice(case: Case, found: Influence) -> Influence:
    """The same with another replacement of every token that seems to have no say in its own output: a feature may be shut."""
    blind = (~found.sees.diagonal()).nonzero().flatten().tolist()
    if not blind or len(blind) == found.sees.shape[0]:
        return found
    sees = found.sees.clone()
    batch, base = case.base
    size = max(float(base.abs().max()), 1e-12)
    for t in blind:
        for number in (501, 502, 503):
            moved = {n: x.clone() for n, x in batch.items()}
            replace_token(moved[case.call.query], 0, t, number=number + t, size=2.0)
            sees[:, t] |= (case.run(moved)[0] - base[0]).abs().amax(-1) / size > case.tolerance
    return Influence(found.change, sees)


def _alone(found: Influence, sites: list[Site], n: int) -> Verdict | None:
    """Every output depends on its own token only, although the attention inside gives weight to others."""
    if n < 2 or bool((found.sees & ~torch.eye(n, dtype=torch.bool)).any()):
        return None
    spread = [
        s
        for s in sites
        if (w := s.weights()) is not None and min(w.shape[-2:]) >= n and float(w.double().amax(-1).mean()) < 0.999
    ]
    if not spread:
        return None
    return Verdict(
        "error",
        "every output depends on its own token only, although the attention inside gives weight to others: its result is not used",
        kind="output-unused",
        measured=0.0,
        allowed="a change",
        where=spread[0].where or None,
        example=f"{n} tokens replaced in turn",
        cause="the weighted values are computed and dropped",
        fix="use the product of weights and values",
    )


def _hides_itself(site: Site) -> bool:
    """Do the maps of a site (T, T) lie strictly below the diagonal, first row aside?"""
    weights = site.weights()
    if weights is None or weights.shape[-1] != weights.shape[-2] or weights.shape[-1] < 3:
        return False
    below = torch.ones(weights.shape[-2:], dtype=torch.bool).tril(-1)
    rest = weights.nan_to_num(0.0)[..., 1:, :]
    return bool((rest[..., ~below[1:]].abs() < 1e-12).all()) and bool((rest[..., below[1:]] > 0).any())


def _with_one_key(sites: list[Site], n: int) -> set[int]:
    """The rows that give one key all the weight, in every map of a site: who asks has no say there."""
    maps = [w for s in sites if (w := s.weights()) is not None]
    return {t for w in maps for t in range(min(n, w.shape[-2])) if bool((w[..., t, :].amax(-1) > 1 - 1e-9).all())}


def _judge(found: Influence, length: int | None, sites: list[Site]) -> Verdict | None:
    own = found.sees.diagonal()
    n = own.numel()
    if bool(own.all()):
        return _alone(found, sites, n)
    blind = (~own).nonzero().flatten().tolist()
    none = [t for t in blind if not bool(found.sees[t].any())]
    unread = set((~found.sees.any(0)).nonzero().flatten().tolist())
    if not none and set(blind) <= unread:
        return None  # those tokens influence no output at all: a stride that does not divide, not a wrong place
    if n > 2 and blind == [1] and found.sees[1].nonzero().flatten().tolist() == [0]:
        return None  # shared queries and keys see themselves only if nothing else: one key has weight 1, whoever asks
    if not bool(found.sees.triu(1).any()) and set(blind) <= _with_one_key(sites, n):
        return None  # a start key is all that the first may read
    tail = none == list(range(n - len(none), n)) and len(none) < n and len(none) > 0
    if len(none) == n:
        return Verdict(
            "error",
            "no input token has any influence on any output",
            kind="output-unused",
            measured=0.0,
            allowed="a change",
            example=f"{n} tokens replaced in turn",
            cause="the attention hides every real key, or its result is not used",
            fix="look at the mask and at what is returned",
        )
    kind = (
        "chunk-tail"
        if tail
        else "causal-strict"
        if not bool(found.sees.triu(1).any()) and (len(blind) == n or any(map(_hides_itself, sites)))
        else "window-reverse"
    )
    cause = {
        "chunk-tail": "tokens that do not fill the last chunk are dropped or left at zero",
        "causal-strict": "the causal mask hides a token from itself, and nothing else carries it",
        "window-reverse": "rows are put back in places that are not their own",
    }[kind]
    return Verdict(
        "question" if kind == "causal-strict" and len(blind) == n else "error", f"the output of token {blind[0]} does not depend on token {blind[0]} ({len(blind)} of {n} tokens{f' at length {length}' if length else ''})", kind=kind,
        measured=len(blind), allowed=0, example=f"length {n}", cause=cause, fix={"chunk-tail": "pad to a multiple of the chunk and mask", "causal-strict": "triu(diagonal=1)", "window-reverse": "use the inverse permutation"}[kind],
    )  # fmt: skip
