"""Proof that the modules 649 to 655 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from relations import distance, draw, field, first, hidden_content

KEEP = torch.tensor([[True] * 4 + [False] * 2] * 2)


def p649(m):
    return hidden_content(lambda t: m(t, ~KEEP), draw(2, 6, 30), slice(4, 6), slice(0, 4))


def p650(m):
    return hidden_content(lambda t: m(t, KEEP.double()), draw(2, 6, 24), slice(4, 6), slice(0, 4))


def p651(m):
    return hidden_content(lambda t: m(t, (~KEEP).long()), draw(2, 6, 28), slice(4, 6), slice(0, 4))


def p652(m):
    return float((~field(m, draw(2, 6, 20)).diagonal()).sum())


def p653(m):
    memory = draw(2, 6, 32, seed=1)
    seen = field(lambda t: m(t, memory), draw(2, 5, 32))
    return 1.0 - float(seen.tril(-1).any())  # nothing earlier is read


def p654(m):
    voice, piano = draw(2, 6, 10), draw(2, 6, 26, seed=1)
    return hidden_content(lambda t: m(t, piano, KEEP, torch.ones_like(KEEP))["struck"], voice, slice(4, 6), slice(0, 6))


def p655(m):
    guides, towns = draw(2, 3, 24), draw(2, 6, 24, seed=1)
    other = towns.clone()
    other[:, 4:] = draw(2, 2, 24, seed=2)
    return distance(first(m(guides, other, ~KEEP)), first(m(guides, towns, ~KEEP)))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
