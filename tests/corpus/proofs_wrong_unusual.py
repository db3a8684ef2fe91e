"""Proof that the modules 476 to 478 are wrong: each measures what its author promises, and is far from it."""

from __future__ import annotations

import torch
from relations import distance, draw, field, hidden_content


def p476(m):
    gaps = torch.zeros(2, 6, dtype=torch.bool)
    gaps[:, 4:] = True
    return hidden_content(lambda t: m(t, gaps), draw(2, 6, 24), slice(4, 6), slice(0, 4))


def p477(m):
    x, context = draw(2, 4, 20), draw(2, 7, 20, seed=1)
    return distance(m(x[:, :3], context), m(x, context)[:, :3])


def p478(m):
    return float((~field(m, draw(1, 10, 12))).tril().sum())


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
