"""The mask inside hides padding and shows what is real."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import need_site, recorded, row_sources


def _learned(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Rows that differ from item to item of the padding: learned keys. Padding is zero, or the same vector everywhere."""
    rows = key.double().reshape(*shape, key.shape[-1])
    zero = rows.abs().amax(-1) < 1e-12
    same = torch.zeros_like(zero)
    if rows.shape[-2] > 1:
        gaps = (rows[..., :, None, :] - rows[..., None, :, :]).abs().amax(-1) < 1e-12
        same = gaps.sum(-1) > 1  # another key of the same head is the same vector
    return ~(zero | same)


@rule("ATT106", kinds=("mask-inverted",))
def visible_padding(case: Case) -> Verdict | None:
    """Where a module pads its keys by itself (halo borders, windows), the keys it hides are the padding.

    A key is padding when no input token has any influence on it.
    What goes wrong: the mask of real pixels is used as the mask of hidden ones.
    Why it matters: every query sees nothing but zeros.

    Bad:
        scores = scores.masked_fill(real, -inf)
    Good:
        scores = scores.masked_fill(~real, -inf)
    """
    case.need_determinism()
    sites = need_site(case)
    rows = row_sources(case)
    looked = False
    for site, sources in zip(sites, rows):
        seen = site.visible()
        weights = site.weights()
        if "key" not in sources or seen is None or weights is None or site.learned_keys or bool(seen.all()):
            continue
        key = sources["key"].source.reshape(sources["key"].shape)
        items = case.call.sources[case.call.query].batch
        part = max(1, key.shape[0] * min(items, 2) // items) if key.ndim > 1 else key.shape[0]
        key = key[:part]
        shown = (
            (weights > 1e-9).expand(*weights.shape)[:part].flatten(0, -3)
            if weights.ndim > 2
            else (weights > 1e-9)[None]
        )
        hidden = ~shown
        real = (key >= 0) | (key == -1) | _learned(recorded(site.key), sources["key"].shape)[:part]
        real = real.reshape(-1, real.shape[-1])
        if real.shape[0] != shown.shape[0]:
            real = real.repeat_interleave(max(1, shown.shape[0] // real.shape[0]), 0)
        padding = ~real
        if real.shape[0] != shown.shape[0] or not bool(padding.any()):
            continue
        looked = True
        wrong = (
            bool((padding[:, None] & shown).any())
            and not bool((padding[:, None] & hidden).any())
            and bool((real[:, None] & hidden).any())
        )
        if wrong:
            return Verdict(
                "error",
                "the padding that the module adds is seen, and real keys are hidden",
                kind="mask-inverted",
                measured="padding seen, real keys hidden",
                allowed="the reverse",
                where=site.where or None,
                cause="the mask of real keys is used as the mask of hidden keys",
                fix="masked_fill(~real, ...)",
                example="a plain call",
            )
    case.need(looked, "it adds no padding of its own, or hides nothing")
    return None
