"""Every head reads every feature."""

from __future__ import annotations

import torch

from regard.checks.case import Case, Verdict
from regard.checks.rule import rule
from regard.checks.sites import recorded, watch


@rule("ATT311", kinds=("heads-not-independent",))
def heads_see_features(case: Case) -> Verdict | None:
    """The queries of each head depend on all input features.

    Measured by changing one feature at a time.
    What goes wrong: the input is cut into heads before the projection, and one small projection serves all heads.
    Why it matters: heads cannot choose what they look at; the layer has a fraction of the parameters.
    Narrow attention (every head its own slice, with its own weights) is a design: declare it, or use one projection each.

    Bad:
        x = x.view(B, T, H, D); q = self.q(x)                # self.q is Linear(D, D)
    Good:
        q = self.q(x).view(B, T, H, D)                       # self.q is Linear(E, E)
    """
    case.need_determinism()
    case.need(not case.call.is_cross, "two streams")
    source = case.call.sources[case.call.query]
    case.need(source.vocabulary is None and 1 < source.width <= 128, "features cannot be changed one by one")
    batch = case.sample()
    sites = watch(case, batch).sites
    ready = [(i, q) for i, s in enumerate(sites) if (q := s.query) is not None and q.ndim == 4 and q.shape[1] > 1]
    case.need(bool(ready), "no queries with a head axis were seen")
    index, base = ready[0]
    reads = torch.zeros(base.shape[1], source.width, dtype=torch.bool)
    for f in range(source.width):
        moved = {n: x.clone() for n, x in batch.items()}
        moved[case.call.query][..., f] += 1.0
        other = recorded(watch(case, moved).sites[index].query)
        reads[:, f] = (other - base).abs().amax((0, 2, 3)) > 1e-9
    counts = reads.sum(-1)
    heads = reads.shape[0]
    narrow = bool((counts * heads <= source.width).all()) and bool((reads.sum(0) == 1).all())
    if not narrow:
        return None
    shared = case.subject.is_module and any(
        p.ndim == 2 and p.shape[-1] == source.width // heads for p in case.subject.pristine.parameters()
    )
    return Verdict(
        "warning" if shared else "question",
        f"each of {heads} heads reads only {int(counts[0])} of {source.width} features"
        + (", through one projection that all heads share" if shared else ": is narrow attention meant?"),
        kind="heads-not-independent",
        measured=int(counts[0]),
        allowed=source.width,
        where=sites[index].where or None,
        cause="the input is cut into heads before the projection",
        fix="project first: Linear(embed_dim, embed_dim), then split into heads",
    )
