"""Grouped-query attention: query head i reads key head i // group."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import need_site
from regard.intercept import Site
from regard.intercept.readings import key_head_of_query_head

INTERLEAVED = r"repeat_interleave|enable_gqa|repeat_kv"


def _value_heads(site: Site) -> list[int] | None:
    """For each query head, the first head with the same values."""
    v, q = site.value, site.query
    if v is None or q is None or v.dim() not in (4, 5) or v.dim() != q.dim():
        return None
    if v.dim() == 5:  # (B, G, H / G, S, D)
        v, q = v.expand(*q.shape[:3], *v.shape[-2:]).flatten(1, 2), q.flatten(1, 2)
    if v.shape[1] != q.shape[1]:
        return None
    return [next(g for g in range(h + 1) if torch.equal(v[:, g], v[:, h])) for h in range(v.shape[1])]


def _copies_inside(site: Site) -> int:
    """How many neighbouring channels of keys and of values are copies of one, heads joined; 1 where each is its own.

    Copies of a key head lie in other heads. Where the channels before the cut into heads were repeated one by one, a head
    holds a few of them, each several times.
    """
    if site.key is None or site.value is None or site.key.ndim != 4 or site.learned_keys or site.learned_values:
        return 1
    return min(_run_length(site.key), _run_length(site.value))


def _run_length(rows: Tensor) -> int:
    """The largest n so that the flat channels of (B, H, S, D) are runs of n equal ones, none of them constant."""
    heads, width = rows.shape[1], rows.shape[-1]
    flat = rows.detach().transpose(1, 2).flatten(2).flatten(0, 1)  # (B * S, H * D)
    constant = bool((flat == flat[:1]).all(0).any())
    if heads < 2 or width < 2 or constant:
        return 1
    total = heads * width
    runs = (n for n in range(total // 2, 1, -1) if total % n == 0)
    return next((n for n in runs if torch.equal(flat, flat[:, ::n].repeat_interleave(n, 1))), 1)


def _pairs(order: list[int]) -> list[int]:
    rank = {g: i for i, g in enumerate(dict.fromkeys(order))}
    return [rank[g] for g in order]


@rule("ATT309", kinds=("gqa-order", "gqa-repeat-axis"))
def gqa_order(case: Case) -> Verdict | None:
    """With fewer key heads than query heads, neighbouring query heads share a key head.

    Which key head each query head reads is measured.
    What goes wrong: key heads are tiled (0 1 0 1) instead of repeated (0 0 1 1), or repeated along the sequence axis or
    channel by channel and reshaped into heads.
    Why it matters: weights from Llama and others load without an error and give nonsense. Trained from scratch, either
    order works: without a sign of what is meant this is a question.

    Bad:
        k = k.repeat(1, group, 1, 1)
    Good:
        k = k.repeat_interleave(group, dim=1)
    References: ONNX Attention; torch enable_gqa.
    """
    for site in need_site(case):
        copies = _copies_inside(site)
        if copies > 1:
            return _repeated_channels(site, copies)
        order = key_head_of_query_head(site)
        if order is None:
            continue
        values = _value_heads(site)
        if values is not None and 1 < len(set(order)) < len(order) and _pairs(values) != _pairs(order):
            return Verdict(
                "error",
                f"query heads read key heads {order} and value heads {values}: keys and values are grouped differently",
                kind="gqa-order",
                measured=values,
                allowed=order,
                where=site.where or None,
                example=f"{len(order)} query heads",
                cause="keys are repeated and values are tiled, or the reverse",
                fix="repeat_interleave both",
            )
        groups = len(set(order))
        heads = len(order)
        if groups in (1, heads):
            continue
        first = [order.index(g) for g in dict.fromkeys(order)]
        rank = {g: i for i, g in enumerate(dict.fromkeys(order))}
        got = [rank[g] for g in order]
        want = [h * groups // heads for h in range(heads)]
        if got == want:
            return None
        said = case.evidence.says(INTERLEAVED, where="source")
        declared = case.design.kv_heads is not None
        return Verdict(
            "error" if said or declared else "question",
            f"query heads read key heads {got}, not {want}" + (f", although the source says {said}" if said else "" if declared else ": is that meant?"),
            kind="gqa-repeat-axis" if said and "interleave" in said else "gqa-order", measured=got, allowed=want, where=site.where or None, example=f"{heads} query heads, {groups} key heads, first copies at {first}",
            cause="keys are repeated along another axis and then reshaped into heads" if said else "keys are tiled instead of repeated", fix="k.repeat_interleave(group, dim=1) on (B, Hkv, T, D)",
        )  # fmt: skip
    case.need(False, "no grouped key heads were seen")
    return None


def _repeated_channels(site: Site, copies: int) -> Verdict:
    assert site.key is not None
    heads, width = site.key.shape[1], site.key.shape[-1]
    held = [len({c // copies for c in range(h * width, (h + 1) * width)}) for h in range(heads)]
    return Verdict(
        "error",
        f"each channel of keys and values stands {copies} times side by side: a head of {width} holds {min(held)} to {max(held)} channels",
        kind="gqa-repeat-axis",
        measured=f"{max(held)} channels in a head",
        allowed=f"{width}",
        where=site.where or None,
        example=f"{heads} heads of {width}",
        cause="keys and values are repeated along the channels before they are cut into heads",
        fix="cut into heads, then repeat_interleave along the head axis",
    )
