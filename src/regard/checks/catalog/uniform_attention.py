"""Different queries attend differently."""

from __future__ import annotations

from regard.checks.case import Case, Verdict
from regard.checks.redraw import SEEDS, redrawn
from regard.checks.rule import rule
from regard.checks.sites import alike_keys, attention_sites, need_site, watch
from regard.intercept import Site


@rule("ATT405", kinds=("uniform-attention",))
def uniform_attention(case: Case) -> Verdict | None:
    """Scores depend on the query: the weights of two queries differ.

    What goes wrong: the scores are multiplied by zero, an option switches them off, the query is replaced by a constant
    or averaged over the sequence.
    Why it matters: attention is an expensive mean.

    Bad:
        weights = (q @ k.mT * (1 // math.sqrt(d))).softmax(-1)      # an integer division: 0
    Good:
        weights = (q @ k.mT * (1 / math.sqrt(d))).softmax(-1)
    """
    choices = [i for i, site in enumerate(need_site(case)) if _is_flat_choice(site)]
    for i in choices:
        if all(_is_flat_choice(site) for site in _again(case, i)) and not _empty_buffers(case):
            return _chosen_alike(case, attention_sites(case)[i])
    for site in attention_sites(case):
        weights = site.weights()
        if (
            weights is None
            or site.query is None
            or site.key is None
            or site.learned_queries
            or site.learned_keys
            or weights.shape[-2] < 2
            or weights.shape[-1] < 3
            or site.kind == "other"
            or alike_keys(case, site)
        ):
            continue
        seen = site.visible()
        if seen is not None and not bool(seen.all()):
            continue
        weights = weights.double()
        flat = float((weights * weights.shape[-1] - 1).abs().max())
        if flat < 1e-9:
            singleton = float((weights - 1).abs().max()) < 1e-12
            if singleton:
                continue
            return Verdict(
                "error",
                "every key gets the same weight, whatever the query",
                kind="uniform-attention",
                measured=flat,
                allowed="weights that differ",
                where=site.where,
                cause="the scores are constant: multiplied by 0, or never computed from q and k",
                fix="look at what multiplies the scores",
            )
    return None


def _is_flat_choice(site: Site) -> bool:
    """Weights of branches or places that no product of queries and keys made, and that are all 1 / n."""
    made, axis = site.weights_made, site.softmax_axis
    if site.kind != "softmax" or made is None or axis is None or site.query is not None or site.key is not None:
        return False
    n = made.shape[axis]
    return n > 1 and float((made.double() * n - 1).abs().max()) < 1e-9


def _again(case: Case, at: int) -> list[Site]:
    """The same site for other inputs, with other weights."""
    out = []
    for seed in SEEDS[:2]:
        sites = watch(case, case.sample(seed), module=redrawn(case, seed)).sites
        out += sites[at : at + 1]
    return out


def _empty_buffers(case: Case) -> bool:
    """Does it keep a state of zeros? A memory that nothing was written to gives equal scores."""
    return any(b.numel() > 1 and not bool(b.any()) for b in case.subject.pristine.buffers()) or case.subject.stateful


def _chosen_alike(case: Case, site: Site) -> Verdict:
    image = len(case.call.sources[case.call.query].grid) == 2
    made = site.weights_made
    assert made is not None, "a flat choice has weights"
    return Verdict(
        "error", f"a softmax over {made.shape[site.softmax_axis or -1]} gives each the same weight, for every input and with other weights too",
        kind="gate-constant" if image else "uniform-attention", measured=0.0, allowed="weights that differ", where=site.where, example=f"weights {tuple(made.shape)}",
        cause="all scores are computed by one and the same layer ([layer] * n), or from the same values", fix="a layer for each: nn.ModuleList(Layer() for _ in range(n))",
    )  # fmt: skip
