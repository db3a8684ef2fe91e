"""The row computed for a token comes back to that token."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.frozen_norms import frozen_norms
from regard.checks.influence import influence, is_causal
from regard.checks.rule import rule
from regard.checks.sites import recorded, row_sources, token_offset, watch
from regard.checks.straddled import straddled
from regard.checks.token_rows import Scramble, scrambled
from regard.checks.turned import turned
from regard.intercept import Site

MOST_ROWS = 130


@rule("ATT303", kinds=("head-merge-order", "spatial-layout-scramble", "window-reverse", "batch-cross-talk"))
def rows_come_back(case: Case) -> list[Verdict]:
    """What attention computes for the query of a token ends in the output of that token, all heads of it.

    Followed forward (which token makes this query row?) and backward (which output does this row feed?).
    What goes wrong: heads are merged without a transpose, windows are put back with the permutation that took them
    apart, (B, N, C) is reshaped to (B, C, H, W) or the reverse, batch and heads are unfolded in the wrong order.
    A shift that is the same for all tokens (a start token before them, the last one cut off) is no wrong merge.
    Why it matters: tokens get each other's results; the model trains and is worse.

    Bad:
        y = y.reshape(B, T, -1)                          # y is (B, H, T, D)
    Good:
        y = y.transpose(1, 2).reshape(B, T, -1)
    """
    case.need_determinism()
    source = case.call.sources[case.call.query]
    if source.tokens <= MOST_ROWS and (mixed := scrambled(case, row_sources(case))) is not None:
        return [_pieces_of_memory(case, mixed)]
    series = turned(case)
    if series is not None:  # the tokens are series, not time steps
        return rows_come_back(series)
    if (at := straddled(case, row_sources(case)) if source.tokens <= MOST_ROWS else None) is not None:
        return [_runs_over_rows(case, at)]
    case.need(case.call.follows, "outputs do not stand for tokens")
    case.need(source.batch * source.tokens <= MOST_ROWS * 3, "too many tokens to follow one by one")
    sources = row_sources(case)
    case.need(source.layout.batched, "there is no batch axis")
    with frozen_norms(case, case.call)():
        run = watch(case, case.sample(), grad=True)
    case.need(run.output.requires_grad, "no gradient reaches the attention")
    out: list[Verdict] = []
    followed = 0
    for site, rows in zip(run.sites, sources):
        if "query" not in rows or site.output is None or rows["query"].shape != tuple(site.output.shape[:-1]):
            continue
        feeds = _feeds(run.output, site, min(2, source.batch))
        if feeds is None:
            continue
        followed += bool((rows["query"].source >= 0).any())
        verdict = _judge(case, site, _of_the_query(case, rows["query"].source), feeds)
        if verdict is not None and not out:
            out.append(verdict)
    case.need(followed > 0, "later layers mix the rows again, or the rows could not be followed")
    return out


def _of_the_query(case: Case, source: Tensor) -> Tensor:
    """Flat tokens counted within the stream that asks, from 0; -1 for those of another stream."""
    stream = case.call.sources[case.call.query]
    own = source - token_offset(case, case.call, case.call.query)
    own[(own < 0) | (own >= stream.batch * stream.tokens)] = -1
    return torch.where(source >= 0, own, source)


def _runs_over_rows(case: Case, at: int) -> Verdict:
    rows, columns = case.call.sources[case.call.query].grid
    where = watch(case, case.sample()).sites[at].where
    return Verdict(
        "error", f"sequences of {rows} tokens, as many as there are rows, hold neighbours of the raster that run over the ends of rows: neither a row nor a column",
        kind="spatial-layout-scramble", measured="tokens 1 apart", allowed=f"tokens {columns} apart", example=f"a map of {rows} x {columns}", where=where or None,
        cause="(B, T, N, D) is reshaped to (B * N, T, D) without exchanging T and N", fix="transpose(1, 2) before the reshape, and after it",
    )  # fmt: skip


def _pieces_of_memory(case: Case, found: Scramble) -> Verdict:
    layout = case.call.sources[case.call.query].layout.axes
    axes = "".join(a for a in layout.replace("D", "C") if a != "B")
    return Verdict(
        "error",
        f"key r is made of the r-th piece of memory, parts of {found.tokens} tokens, and not of token r: all the rest of the input moves it {found.rest:.0%} as far",
        kind="spatial-layout-scramble",
        measured=f"{found.tokens} tokens in a row",
        allowed="1",
        example=f"{tuple(case.call.sources[case.call.query].shape)}",
        where=found.site.where or None,
        cause=f"(B, {', '.join(axes)}) is viewed with tokens and channels in the other order, without moving an axis",
        fix="x.flatten(2).transpose(1, 2)" if layout[1] == "D" else "x.flatten(1, -2), then transpose(1, 2)",
    )


def _feeds(output: Tensor, site: Site, items: int) -> Tensor | None:
    """(R, D): the one flat token that element (row, channel) feeds; -2 for none; None when an element feeds several."""
    tokens = output.shape[1]
    inside = recorded(site.output)
    feeds = torch.full((inside.shape[:-1].numel(), inside.shape[-1]), -2)
    weight = torch.randn(output.shape[-1], generator=torch.Generator().manual_seed(3), dtype=output.dtype)
    for b in range(items):
        for t in range(tokens):
            grad = site.gradient((output[b, t] * weight).sum(), "output")
            if grad is None:
                return None
            hit = grad.reshape(feeds.shape).abs() > 1e-12
            if bool((hit & (feeds >= 0)).any()):
                return None
            feeds[hit] = b * tokens + t
    return feeds


def _judge(case: Case, site: Site, query: Tensor, feeds: Tensor) -> Verdict | None:
    known = (query >= 0) & (feeds >= 0).any(-1)
    if not bool(known.any()):
        return None
    wrong = known[:, None] & (feeds >= 0) & (feeds != query[:, None])
    if not bool(wrong.any()):
        return None
    row, channel = (int(i) for i in wrong.nonzero()[0])
    tokens = case.call.sources[case.call.query].tokens
    if (by := _shift(site, query, feeds, known, tokens)) is not None:
        return None if is_causal(case) and not bool(influence(case).sees.diagonal().any()) else _shifted(by)
    came, went = int(query[row]), int(feeds[row, channel])
    kind, cause, fix = _cause(case, site, query, feeds, known, tokens)
    share = float(wrong[known].double().mean())
    return Verdict(
        "error", f"the attention row computed for token {came % tokens} of item {came // tokens} ends in the output of token {went % tokens} of item {went // tokens}",
        kind=kind, measured=f"{share:.0%} of the followed entries end elsewhere", allowed="0 %", example=f"{tokens} tokens, rows of shape {tuple(recorded(site.output).shape)}", where=site.where or None, cause=cause, fix=fix,
    )  # fmt: skip


def _shift(site: Site, query: Tensor, feeds: Tensor, known: Tensor, tokens: int) -> int | None:
    """By how many places all tokens of an item are moved alike, if they are: those that a start token pushes out are gone.

    All tokens are followed, or else all rows end in the order that they have.
    """
    rows, fed = query[known][:, None].expand_as(feeds[known]), feeds[known]
    moved = (fed - rows)[fed >= 0].unique()
    if moved.numel() != 1 or bool((rows // tokens != fed // tokens)[fed >= 0].any()):
        return None
    by, items = int(moved[0]), (query[known] // tokens).unique().numel()
    every = query[known].unique().numel() == items * (tokens - abs(by))
    ordered = recorded(site.output).shape[-2] == tokens and _ordered(feeds, tokens)
    return by if every or ordered else None


def _ordered(feeds: Tensor, tokens: int) -> bool:
    """Does row r of every head and item feed token r, in all channels?"""
    own = torch.arange(feeds.shape[0])[:, None] % tokens
    return bool(((feeds % tokens == own) | (feeds < 0)).all())


def _shifted(by: int) -> Verdict:
    return Verdict(
        "question", f"the attention row computed for every token ends {abs(by)} {'later' if by > 0 else 'earlier'} than the token: is the shift meant?",
        kind="head-merge-order", measured=by, allowed=0, cause="the tokens, or the rows, are shifted", fix="shift the tokens and what is added to them alike",
    )  # fmt: skip


def _cause(case: Case, site: Site, query: Tensor, feeds: Tensor, known: Tensor, tokens: int) -> tuple[str, str, str]:
    whole = all(len(set(f[f >= 0].tolist())) <= 1 for f in feeds[known])
    items = bool(((query // tokens)[known] != (feeds.amax(-1) // tokens)[known]).any())
    images = len(case.call.sources[case.call.query].grid) == 2
    if items and whole:
        return (
            "batch-cross-talk",
            "the axis that holds batch and heads is folded in one order and unfolded in another",
            "unfold (B * H) as view(B, H, ...)",
        )
    inside = recorded(site.output)
    if whole and inside.ndim > 2 and inside.shape[-2] < tokens:
        return (
            "window-reverse",
            "windows are put back with the permutation that took them apart, not with its inverse",
            "use the inverse permutation (argsort) to put windows back",
        )
    if images:
        return (
            "spatial-layout-scramble",
            "(B, N, C) is reshaped to (B, C, H, W) without a transpose",
            "x.transpose(1, 2).reshape(B, C, H, W)",
        )
    return (
        "head-merge-order",
        "heads are merged by reshape without moving the head axis next to the channels",
        "y.transpose(1, 2).reshape(B, T, H * D)",
    )
