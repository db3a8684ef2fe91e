"""Proof that the modules 491 to 500 are right: distance to an open formula, or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from proofs_wrong_small_models import captioned
from relations import attend, batch, distance, draw, future, heads, merged


def p491(m):
    x, where = draw(2, 9, 4), torch.rand(2, 9, 3, dtype=torch.float64)
    order = torch.tensor([4, 0, 8, 2, 1, 7, 3, 6, 5])
    moved = distance(m(x[:, order], where[:, order]), m(x, where)[:, order])
    return max(moved, distance(m(x[:1], where[:1]), m(x, where)[:1]), batch(lambda y: m(y, where), x))


def p492(m):
    done, paid, goal = draw(2, 6, 2, seed=1), draw(2, 6, 1, seed=2), draw(2, 4, seed=3)
    return future(lambda x: m(x, done, paid, goal), draw(2, 6, 5))


def p493(m):
    return distance(*captioned(m))


def p494(m):
    x, blank = draw(7, 3, 18), torch.arange(7) > torch.tensor([[6], [4], [2]])
    q, k, v = (heads(t, 3) for t in m.qkv(m.norm(x.transpose(0, 1))).chunk(3, -1))
    wanted = x + m.out(merged(attend(q, k, v, keep=~blank[:, None, None]))).transpose(0, 1)
    return distance(m(x, blank), wanted)


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
