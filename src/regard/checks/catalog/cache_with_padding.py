"""With left padding, piece by piece through the cache, real outputs are those of one masked call."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.infer_cache import chunks, open_stream, runs_forward
from regard.checks.masks import masked
from regard.checks.rule import rule

PAD = 2


@rule("ATT205", kinds=("cache-mask",))
def cache_with_padding(case: Case) -> Verdict | None:
    """A batch with padding on the left, fed through the cache with its mask, equals one call with the whole mask.

    What goes wrong: the mask is applied in the first call and forgotten when decoding, or covers the new keys only.
    Why it matters: in batched generation, short prompts are answered as if their padding were text.

    Bad:
        mask = None if past is not None else mask
    Good:
        pass the mask over all keys so far in every step
    """
    case.need(case.cache is not None, "no key-value cache was found")
    case.need(case.cache.method is None, "its steps are a method of their own, without a mask")
    case.need(runs_forward(case), "a plain call is not causal, so the pieces cannot equal the whole")
    uses = [u for u in case.masks if u.works and u.shape in ("BS", "B11S", "B1S") and u.source == case.call.query]
    case.need(bool(uses), "no key mask that works")
    case.need_determinism()
    use = uses[0]
    batch = case.sample(6, tokens={case.call.query: 8})
    keep = torch.ones(batch[use.source].shape[:2], dtype=torch.bool)
    keep[0, :PAD] = False
    whole = masked(case, case.call, use, batch, keep)
    if not bool(torch.isfinite(whole[:, PAD:]).all()):
        case.need(case.subject.dtype == torch.float64, "a masked call is not finite (see fully_masked_row)")
        return cache_with_padding(case.in_float32())
    stream, pieces, at = open_stream(case), [], 0
    for piece in chunks(case.call, batch, [4, 1, 1, 1, 1]):
        n = piece[case.call.query].shape[1]
        at += n
        try:
            pieces.append(stream.feed(piece, {use.parameter: use.encode(keep[:, :at], n, case.subject.dtype)}))
        except Exception as error:
            case.need(False, f"the mask over all keys so far is not accepted in a step: {type(error).__name__}")
    got = torch.cat(pieces, 1)
    change = case.difference(got[:, PAD:], whole[:, PAD:])
    if change <= case.big:
        return None
    return Verdict(
        "error",
        f"with {PAD} tokens of left padding, the cached outputs differ from one masked call by {change:.2g} (relative)",
        kind="cache-mask",
        measured=change,
        allowed=case.tolerance,
        example="item 0 with 2 padded tokens, chunks 4, 1, 1, 1, 1",
        cause="the mask is not applied to the cached keys",
        fix="pass the mask over all keys so far in every step",
    )
