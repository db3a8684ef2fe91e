"""Why a cached run differs from a full one: which chunkings differ, and what the attention inside does at each step."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Batch, Case
from regard.checks.infer_cache import chunks, open_stream
from regard.checks.sites import recorded
from regard.checks.subject import untouched_globals
from regard.intercept import Site, observe

FIX = {
    "causal-missing-in-prefill": "mask the prefill too: keep = torch.ones(T, S).tril(S - T)",
    "causal-alignment": "query i stands at past + i: torch.ones(T, S).tril(S - T), not is_causal=True",
    "cache-rope-offset": "rotate with positions past_length + arange(T)",
    "cache-position-bias": "distances from absolute positions: (past + arange(T))[:, None] - arange(S)[None]",
    "cache-order": "torch.cat([past, new], dim=2), in that order, once",
    "cache-occupancy": "hide slots at and beyond the number of tokens written",
    "window-off-by-one": "keep the same keys when decoding as in the band of the full call",
    "cache-mask": "pass the mask over all keys so far in every step",
}


def cache_cause(
    case: Case, batch: Batch, whole: Tensor, results: dict[tuple[int, ...], float], big: float
) -> tuple[str | None, str, str]:
    """(kind, cause, fix)."""
    try:
        kind, cause = _kind(case, batch, results, big)
    except Exception as error:
        case.notes.append(f"the cause in the cache was not found: {type(error).__name__}: {str(error)[:80]}")
        kind, cause = None, "the cached path computes something else"
    return kind, cause, FIX.get(kind or "", "compare q, k and the mask of step and full call at the same positions")


def _kind(case: Case, batch: Batch, results: dict[tuple[int, ...], float], big: float) -> tuple[str | None, str]:
    full = _watched(case, [batch])[0]
    singles = _watched(case, chunks(case.call, batch, [1] * 8))
    if not full or not all(singles[1:]):  # one query and one key may be no product that can be seen
        return None, "the cached path computes something else (no attention was seen inside)"
    site, steps = full[0], [s[0] for s in singles if s]
    keys = [s.key.shape[-2] if s.key is not None else 0 for s in steps]
    full_keys = site.key.shape[-2] if site.key is not None else 0
    wrong = _slots(steps, keys, full_keys) if singles[0] else None
    if wrong is not None:
        return wrong
    single_ok = all(d <= big for p, d in results.items() if all(n == 1 for n in p))
    if single_ok:
        return _multi(_watched(case, chunks(case.call, batch, [4, 4])), results)
    return _step(site, steps[-1], len(singles) - 1)


def _watched(case: Case, pieces: list[Batch]) -> list[list[Site]]:
    stream = open_stream(case)
    out = []
    for piece in pieces:
        with (
            untouched_globals(case.seed),
            torch.no_grad(),
            observe(stream.module if case.subject.is_module else None) as seen,
        ):
            stream.feed(piece)
        out.append(list(seen.sites))
    return out


def _slots(steps: list[Site], keys: list[int], full_keys: int) -> tuple[str, str] | None:
    if len(set(keys)) == 1 and keys[0] > 1:
        seen = steps[0].visible()
        weights = steps[0].weights()
        if seen is not None and int(seen.reshape(-1, seen.shape[-1])[0].sum()) > 1:
            return "cache-occupancy", f"the first token sees all {keys[0]} slots of the buffer, written or not"
        if weights is not None and int((weights.reshape(-1, weights.shape[-1])[0] > 0).sum()) > 1:
            return (
                "cache-occupancy",
                f"the first token gives weight to {int((weights.reshape(-1, weights.shape[-1])[0] > 0).sum())} of {keys[0]} slots",
            )
    return None


def _multi(halves: list[list[Site]], results: dict[tuple[int, ...], float]) -> tuple[str, str]:
    """Single steps are right; several new tokens at once are not."""
    first, second = halves[0][0].visible(), halves[1][0].visible() if len(halves) > 1 and halves[1] else None
    if first is not None and bool(first.all()):
        return "causal-missing-in-prefill", "a chunk of several tokens through the cache has no causal mask"
    if second is not None and second.shape[-1] > second.shape[-2]:
        row = second.reshape(-1, *second.shape[-2:])[0]
        if int(row[0].sum()) == 1:
            return (
                "causal-alignment",
                "with fewer queries than keys the causal mask is aligned at the top left: query 0 sees key 0 only",
            )
        if bool(row.all()):
            return "causal-missing-in-prefill", "a chunk of several tokens sees itself without a causal mask"
    return "cache-order", "several new keys at once are put in the cache in another order than one by one"


def _step(full: Site, last: Site, t: int) -> tuple[str | None, str]:
    """A single step differs: compare its query, keys and scores with the full call's at the same position t."""
    held = last.key.shape[-2] if last.key is not None else 0
    if held < full.key.shape[-2] if full.key is not None else False:
        allowed = full.visible()
        want = int(allowed.reshape(-1, *allowed.shape[-2:])[0][t].sum()) if allowed is not None else 0
        seen = last.visible()
        have = int(seen.reshape(-1, recorded(last.key).shape[-2])[0].sum()) if seen is not None else held
        if want != have:
            return "window-off-by-one", f"the full call lets query {t} see {want} keys, the cached step {have}"
    query, full_query = recorded(last.query)[..., -1, :], recorded(full.query)[..., t, :]
    if _close(query, full_query) and _same_keys(last, full):
        if _scores_differ(last, full, t):
            allowed, seen = recorded(full.visible()), recorded(last.visible())
            allowed = allowed.reshape(-1, *allowed.shape[-2:])[0][t]
            seen = seen.reshape(-1, seen.shape[-1])[0]
            if int(seen.sum()) == 1 and bool(seen[0]) and seen.numel() > 1 and int(allowed.sum()) > 1:
                return (
                    "causal-alignment",
                    "the step's query sees the oldest key only: the causal mask is aligned at the top left",
                )
            if seen.shape == allowed.shape and not torch.equal(seen, allowed):
                return (
                    "cache-mask",
                    f"the step sees keys {seen.nonzero().flatten().tolist()}, the full call {allowed.nonzero().flatten().tolist()}",
                )
            return "cache-position-bias", "queries and keys agree; what is added to the scores does not"
        if last.value is not None and full.value is not None and _same_set(last.value, full.value):
            return "cache-order", "the cached values are those of the full call in another order than the keys"
        return None, "queries, keys and scores agree; values or what follows do not"
    if _sorted_equal(last, full):
        return "cache-order", "the cached keys are those of the full call in another order"
    if float((query.norm(dim=-1) - full_query.norm(dim=-1)).abs().max()) < 1e-6:
        return (
            "cache-rope-offset",
            "the step's query has the length of the full call's and another angle: its position is not past + i",
        )
    return "cache-rope-offset", "the step's query or keys differ from the full call's at the same position"


def _scores_differ(step: Site, full: Site, t: int) -> bool:
    """Between the step's one query and query t of the full call, over the keys that the step has."""
    got, want = step.scores(), full.scores()
    if got is None or want is None:
        return False
    return float((got[..., -1, :] - want[..., t, : got.shape[-1]]).nan_to_num(0).abs().max()) > 1e-6


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and float((a - b).abs().max()) < 1e-6 * max(float(b.abs().max()), 1e-12)


def _same_keys(step: Site, full: Site) -> bool:
    key, full_key = recorded(step.key), recorded(full.key)
    n = key.shape[-2]
    return _close(key, full_key[..., :n, :]) or _close(key, full_key[..., -n:, :])


def _sorted_equal(step: Site, full: Site) -> bool:
    return _same_set(recorded(step.key), recorded(full.key))


def _same_set(key: Tensor, full_key: Tensor) -> bool:
    """Are the rows of item 0 the first rows of the full call, in whatever order?"""
    n = key.shape[-2]
    if n > full_key.shape[-2]:
        return False
    a, b = key.reshape(-1, n, key.shape[-1])[0], full_key[..., :n, :].reshape(-1, n, full_key.shape[-1])[0]
    return _close(a.sum(-1).sort().values, b.sum(-1).sort().values)
