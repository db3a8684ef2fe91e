"""Within a head, every key stands for another token, and key and value for the same."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from torch import Tensor

from regard.checks.call import Call
from regard.checks.case import Case, NotExercised, Verdict
from regard.checks.guarded import guarded
from regard.checks.infer import float_tensors, looks_like_weights
from regard.checks.influence import replace_token
from regard.checks.layout import output_layout
from regard.checks.redraw import matters
from regard.checks.rule import rule
from regard.checks.sites import Rows, attention_sites, row_sources, token_offset
from regard.checks.turned import turned


def _known(case: Case) -> list[tuple[Call, dict[str, Rows], int]]:
    out = []
    for call in [case.call, *([case.cross] if case.cross else [])]:
        try:
            out += [(call, rows, i) for i, rows in enumerate(row_sources(case, call))]
        except Exception as error:
            if call is case.call:
                raise error
    return out


@rule("ATT304", kinds=("head-split-order",))
def head_sees_each_token_once(case: Case) -> Verdict | None:
    """The keys of one head come from different tokens.

    Followed by replacing one input token at a time.
    What goes wrong: (B, T, E) is viewed as (B, H, T, D) without a transpose: a head gets several slices of few tokens.
    Why it matters: each head sees a part of the sequence, cut at a place that depends on its length.

    Bad:
        q = self.q(x).view(B, H, T, D)
    Good:
        q = self.q(x).view(B, T, H, D).transpose(1, 2)
    """
    patches = case.call.sources[case.call.query].patch > 1
    case.need(not patches, "patches are followed, and tokens inside may be parts of one")
    case.need_determinism()
    series = turned(case)
    if series is not None:  # the tokens are series, not time steps
        return head_sees_each_token_once(series)
    looked = False
    for call, rows, number in _known(case):
        keys = _keys_of_heads(case, call, rows, number)
        looked |= bool(keys)
        if any(len(set(row)) == len(row) for row in keys):  # a view that cuts tokens into pieces does so in every head
            continue
        for row in keys:
            if len(set(row)) > 1:
                tokens = call.sources[call.keys].tokens
                repeated = (
                    case.evidence.says(r"repeat_interleave|\.repeat\(|\.tile\(|\.expand\(", where="source")
                    if _fewer_keys(case)
                    else None
                )
                return Verdict(
                    "error", f"the {len(row)} keys of one head come from only {len(set(row))} tokens: {[t % tokens for t in row][:10]}", kind="gqa-repeat-axis" if repeated else "head-split-order",
                    measured=len(set(row)), allowed=len(row), example=f"{tokens} tokens",
                    cause=f"keys are repeated along the sequence axis ({repeated}) before they are split into heads" if repeated else "the tensor is viewed into heads without moving the head axis",
                    fix="split into heads, then repeat_interleave along the head axis" if repeated else "view(B, T, H, D).transpose(1, 2)",
                )  # fmt: skip
    case.need(looked, "no head's keys could be followed to single tokens")
    return _even_length(case)


def _keys_of_heads(case: Case, call: Call, rows: dict[str, Rows], number: int) -> list[list[int]]:
    """For each head and item the tokens behind its keys, where all are single tokens; keys that no query may see are left out."""
    if "key" not in rows:
        return []
    source = rows["key"].source.reshape(-1, rows["key"].shape[-1])
    seen = attention_sites(case, call)[number].visible()
    if seen is None or seen.any(-2).shape != rows["key"].shape:
        open_to = torch.ones_like(source, dtype=torch.bool)
    else:
        open_to = seen.any(-2).reshape(source.shape)
    heads = [row[sees].tolist() for row, sees in zip(source, open_to)]
    return [row for row in heads if len(row) > 1 and min(row) >= 0]


def _even_length(case: Case) -> Verdict | None:
    """The same at an even length: an odd one hides strides of two."""
    source = case.call.sources[case.call.query]
    if not case.call.free_length or source.tokens % 2 == 0 or case.call.is_cross or "even" in case.facts:
        return None
    call = case.call.but(sources={n: replace(s, grid=(source.tokens + 1,)) for n, s in case.call.sources.items()})
    even = replace(
        case,
        call=call,
        cross=None,
        facts={"even": True, **{k: v for k, v in case.facts.items() if k in ("causal", "finite")}},
        notes=[],
    )
    try:
        return head_sees_each_token_once(even)
    except NotExercised:
        return None


def _fewer_keys(case: Case) -> bool:
    """Is a projection of keys narrower than that of queries (grouped heads)?"""
    return (
        case.design.kv_heads is not None
        or case.evidence.number(
            r"(n|num)?_?(kv_?(heads?|groups?)|groups?|rep|num_key_value_heads|kv|n_rep|num_queries_per_kv)"
        )
        is not None
    )


@rule("ATT305", kinds=("wrong-source",))
def key_and_value_agree(case: Case) -> Verdict | None:
    """The value behind a key comes from the token that the key comes from, and queries from the query stream.

    What goes wrong: values (or keys) are projected from the query's input in cross-attention, or keys and values are
    reordered differently.
    Why it matters: the weights say where to look, and something else is read.

    Bad:
        q, k, v = self.q(x), self.k(context), self.v(x)
    Good:
        q, k, v = self.q(x), self.k(context), self.v(context)
    """
    case.need_determinism()
    looked = False
    for call, rows, _ in _known(case):
        if "key" in rows and "value" in rows and rows["key"].source.shape == rows["value"].source.shape:
            key, value = rows["key"].source, rows["value"].source
            both = (key >= 0) & (value >= 0)
            looked |= bool(both.any())
            bad = both & (key != value)
            if bool(bad.any()):
                return _contradiction(call, key, value, bad, case)
    case.need(looked, "keys and values could not be followed to single tokens")
    return _queries_from_elsewhere(case)


def _queries_from_elsewhere(case: Case) -> Verdict | None:
    """Cross-attention in which no site at all takes its queries from the query stream."""
    by_call: dict[int, list[tuple[Call, Tensor]]] = {}
    for call, rows, _ in _known(case):
        if call.is_cross and "query" in rows and bool((rows["query"].source >= 0).any()):
            by_call.setdefault(id(call), []).append((call, rows["query"].source))
    for found in by_call.values():
        call = found[0][0]
        if not call.follows:  # which stream asks is a guess then
            continue
        at, s = token_offset(case, call, call.query), call.sources[call.query]
        if not any(bool(((q >= at) & (q < at + s.batch * s.tokens)).any()) for _, q in found):
            return Verdict(
                "error",
                f"queries are computed from the {call.keys} stream, not from {call.query}",
                kind="wrong-source",
                measured="0 query rows from the query stream",
                allowed="all",
                cause="the projections read the wrong argument",
                fix="q from the query, k and v from the context",
            )
    return None


def _contradiction(call: Call, key: Tensor, value: Tensor, bad: Tensor, case: Case) -> Verdict:
    at = int(bad.nonzero()[0])
    streams = {}
    for name in call.sources:
        start, s = token_offset(case, call, name), call.sources[name]
        streams[name] = range(start, start + s.batch * s.tokens)

    def of(flat: int) -> str:
        name = next(n for n, r in streams.items() if flat in r)
        return f"token {(flat - streams[name].start) % call.sources[name].tokens} of {name}"

    return Verdict(
        "error", f"a key comes from {of(int(key[at]))} and its value from {of(int(value[at]))}", kind="wrong-source", measured=f"{int(bad.sum())} of {bad.numel()} rows", allowed="0",
        cause="keys and values are projected from different streams, or reordered differently", fix="project keys and values from the same tensor",
    )  # fmt: skip


def _reaches(case: Case, call: Call, name: str) -> bool:
    """Is the stream part of the computation at all (a gradient arrives, and may be zero)?"""
    leaves = {n: x.clone().requires_grad_() for n, x in case.sample(call=call).items() if x.is_floating_point()}
    if name not in leaves:
        return False
    out = case.run(leaves, call=call, grad=True)
    (grad,) = torch.autograd.grad(out.sum(), [leaves[name]], allow_unused=True) if out.requires_grad else (None,)
    return grad is not None


def _guard(case: Case, call: Call, name: str) -> str | None:
    """The setting that switches an optional stream off."""
    parameters = case.subject.signature().parameters
    fed = [p for p, s in call.arguments.items() if s == name]
    if not fed or any(p not in parameters or parameters[p].default is not None for p in fed):
        return None
    found = [guarded(case.subject.pristine, case.subject.forward, p) for p in fed]
    return found[0] if all(found) else None


def _own_output(case: Case, call: Call, name: str) -> str:
    """The question to ask where another output has a row for every token of this stream and changes with it, else ""."""
    source = call.sources[name]
    batch = case.sample(1, call=call)
    moved = {n: x.clone() for n, x in batch.items()}
    for b, t in itertools.product(*(range(n) for n in moved[name].shape[:2])):
        replace_token(moved[name], b, t, number=b * 100 + t)
    runs = [[t for _, t in float_tensors(case.raw(x, call=call))] for x in (batch, moved)]
    for before, after in list(zip(*runs))[1:]:
        follows = output_layout(tuple(before.shape), source.layout, len(batch[name]), source.grid) is not None
        weights = any(looks_like_weights(before, s.tokens) for s in call.sources.values())
        if follows and not weights and case.difference(before.double(), after.double()) > case.tolerance:
            return "; another output has a row for each of its tokens and reads it: is that the one it is for?"
    return ""


def _one_query(case: Case, call: Call) -> bool:
    """Are the queries of every site the same vector in all rows, in each head?"""
    rows = [s.query for s in attention_sites(case, call) if not s.learned_queries]
    return bool(rows) and all(
        q is not None and q.shape[-2] > 1 and case.difference(q, q[..., :1, :].expand_as(q)) < 1e-9 for q in rows
    )


def _alike(change: float, message: str, cause: str, fix: str) -> Verdict:
    return Verdict(
        "error", message, kind="uniform-attention", measured=change, allowed="a change",
        example="every query token replaced in turn", cause=cause, fix=fix,
    )  # fmt: skip


@rule("ATT306", kinds=("wrong-source", "output-unused", "uniform-attention"))
def context_is_read(case: Case) -> Verdict | None:
    """In cross-attention, the output depends on every token of the context, and on the query.

    What goes wrong: keys and values are projected from the query's own stream; the attention's result is not used.
    Why it matters: the second input is ignored, silently.

    Bad:
        k, v = self.kv(x).chunk(2, -1)                       # x is the query's own stream
    Good:
        k, v = self.kv(context).chunk(2, -1)
    """
    from regard.checks.influence import influence

    calls = [c for c in (case.call, case.cross) if c is not None and c.is_cross]
    case.need(bool(calls), "it has one input stream")
    case.need_determinism()
    for call in calls:
        for name in (call.keys, call.query):
            change = influence(case, call=call, source=name).change
            if float(change.max()) <= case.tolerance and matters(case, call, name):
                continue  # weights that start so small that nothing passes
            if float(change.max()) <= case.tolerance and name == call.query and _reaches(case, call, name):
                return _alike(
                    float(change.max()),
                    "the query is projected and has no influence on the output: all queries attend alike",
                    "the query adds the same to the scores of all keys (an additive scorer without a nonlinearity), or is multiplied by 0",
                    "tanh between the sum and the last projection",
                )
            if float(change.max()) <= case.tolerance:
                setting, own = _guard(case, call, name), _own_output(case, call, name)
                if name == call.query and not (setting or own) and _one_query(case, call):
                    return _alike(
                        float(change.max()),
                        f"nothing of {name} reaches the queries: they are all the same, and attend alike",
                        "the queries are computed from a constant, and what tells them apart is never added",
                        f"add {name} to what the queries are projected from",
                    )
                return Verdict(
                    "question" if setting or own else "error",
                    f"the {name} stream has no influence on the output"
                    + (f": it is read only without {setting}; is that meant?" if setting else own),
                    kind="wrong-source",
                    measured=float(change.max()),
                    allowed="a change",
                    example=f"every token of {name} replaced in turn",
                    cause="the projections read the other argument",
                    fix="q from the query, k and v from the context",
                )
    return None
