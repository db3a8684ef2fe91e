"""The attention inside the subject, as the interceptor sees it, tied to the tokens that went in and the rows that came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Batch, Case, NotExercised
from regard.checks.frozen_norms import frozen_norms
from regard.checks.influence import replace_token
from regard.checks.subject import clone, invoke, untouched_globals
from regard.intercept import Seen, Site, observe


@dataclass
class Observed:
    """One observed run: sites, what was not understood, and the main output (attached to the graph if asked)."""

    sites: list[Site]
    seen: Seen
    output: Tensor
    module: Any


def watch(
    case: Case,
    batch: Batch,
    *,
    call: Call | None = None,
    grad: bool = False,
    pristine: bool = False,
    train: bool = False,
    extra: dict[str, Any] | None = None,
    module: Any = None,
) -> Observed:
    """Run once under the interceptor."""
    call = call or case.call
    if module is None:  # a copy of a large model takes long
        module = case.subject.instance(fresh=True if grad else None, train=train)
    if pristine:
        import copy

        from regard.checks.subject import as_dtype

        module = as_dtype(copy.deepcopy(case.subject.pristine), case.subject.dtype).train(train)
    kwargs = {k: clone(v) for k, v in call.lay_out(batch, case.subject.dtype).items()} | (extra or {})
    module_arg = module if case.subject.is_module else None
    with untouched_globals(case.seed), torch.set_grad_enabled(grad), observe(module_arg, keep_graph=grad) as seen:
        raw = invoke(module, kwargs)
    return Observed([s for s in seen.sites if not _gate_of_branches(s)], seen, call.main_output(raw), module)


def _gate_of_branches(site: Site) -> bool:
    """A softmax over branches, multiplied into a larger tensor, whose sum a linear layer then reads: no weights of keys."""
    made = site.weights_made
    larger = [
        s
        for s in site.after
        if s.op == "mul" and s.tensor is not None and made is not None and s.tensor.numel() > made.numel()
    ]
    return site.learned_values and bool(larger)


def attention_sites(case: Case, call: Call | None = None) -> list[Site]:
    """Sites of the plain call on the first sample; empty when none is seen or watching fails."""
    call = call or case.call
    key = ("sites", id(call))
    if key not in case.facts:
        try:
            case.facts[key] = watch(case, case.sample(call=call), call=call).sites
        except Exception as error:
            case.notes.append(f"attention inside could not be watched: {type(error).__name__}: {str(error)[:100]}")
            case.facts[key] = []
    return case.facts[key]


def alike_keys(case: Case, site: Site) -> bool:
    """Are all keys of a site one and the same, in a call with tensors that were made up? Those are equal for all items, and queries have no say."""
    key = site.key
    if key is None or key.ndim < 2 or not case.call.made_up:
        return False
    return float((key - key[..., :1, :]).abs().max()) <= 1e-9 * max(float(key.abs().max()), 1e-30)


COMPETE = r"(\b|_)slots?(\b|_)|\bcompet(e|es|ing|ition)\b"


def competes(case: Case) -> bool:
    """Do the author's words, or a declaration, say that queries compete for keys, as slots do? Their weights need not sum to 1."""
    return bool(case.design.queries_compete) or case.evidence.says(COMPETE, where="name doc source") is not None


def need_site(case: Case, call: Call | None = None) -> list[Site]:
    sites = attention_sites(case, call)
    case.need(bool(sites), "no attention (q k^T, softmax, values) was seen inside")
    return sites


def recorded(tensor: Tensor | None) -> Tensor:
    """A tensor of a site, or of what a site computes, that the caller cannot do without.

    Raises:
        NotExercised: the interceptor could not record it.
    """
    if tensor is None:
        raise NotExercised("not all of the attention inside was recorded")
    return tensor


def causal_matrix(weights: Tensor | None) -> bool:
    """Are all (T, S = T) maps lower triangular, with something below the diagonal?"""
    if weights is None or weights.ndim < 2 or weights.shape[-1] != weights.shape[-2] or weights.shape[-1] < 3:
        return False
    n = weights.shape[-1]
    ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
    return bool((weights[..., ahead].abs() < 1e-12).all()) and bool((weights[..., ~ahead] > 0).any())


@dataclass(frozen=True)
class Rows:
    """Where the rows of one tensor of a site come from: `source[r]` is the flat input token (item * N + token) whose
    replacement changes row r, -1 when several do, -2 when none does. Rows are all leading axes and the row axis, flattened."""

    source: Tensor
    shape: tuple[int, ...]


def row_sources(case: Case, call: Call | None = None) -> list[dict[str, Rows]]:
    """For every site: the tokens behind the rows of query, key and value, found by replacing one token at a time.

    Norms over many tokens keep their statistics, so that tokens can be followed through them. Only items 0 and 1 are tried, all their tokens; rows of other items stay -2.
    """
    call = call or case.call
    key = ("rows", id(call))
    if key in case.facts:
        return case.facts[key]
    need_site(case, call)
    names = list(call.sources)
    batch = case.sample(call=call)
    frozen = frozen_norms(case, call)
    with frozen():
        sites = watch(case, batch, call=call).sites
    offset, spots = 0, []
    for name in names:
        items, tokens = batch[name].shape[:2]
        case.need(tokens <= 100, f"{tokens} tokens are too many to follow one by one")
        spots += [(name, b, t, offset + b * tokens + t) for b in range(min(items, 2)) for t in range(tokens)]
        offset += items * tokens
    found = [{n: _start(getattr(s, n)) for n in ("query", "key", "value") if getattr(s, n) is not None} for s in sites]
    for name, b, t, flat in spots:
        moved = {n: x.clone() for n, x in batch.items()}
        replace_token(moved[name], b, t, number=flat)
        with frozen():
            again = watch(case, moved, call=call).sites
        if len(again) != len(sites):
            continue
        for site, other, rows in zip(sites, again, found):
            for n, source in rows.items():
                _mark(source, getattr(site, n), getattr(other, n), flat)
    case.facts[key] = [
        {n: Rows(s, tuple(getattr(site, n).shape[:-1])) for n, s in rows.items()} for site, rows in zip(sites, found)
    ]
    return case.facts[key]


def _start(tensor: Tensor) -> Tensor:
    return torch.full((tensor.shape[:-1].numel(),), -2)


def _mark(source: Tensor, before: Tensor, after: Tensor, flat: int) -> None:
    if before.shape != after.shape:
        return
    size = max(float(before.abs().max()), 1e-12)
    changed = ((after - before).abs().amax(-1) > 1e-9 * size).flatten()
    source[changed & (source != -2)] = -1
    source[changed & (source == -2)] = flat


def token_offset(case: Case, call: Call, name: str) -> int:
    """Where the flat token numbers of a source begin."""
    at = 0
    for n, s in call.sources.items():
        if n == name:
            return at
        at += s.batch * s.tokens
    return at
