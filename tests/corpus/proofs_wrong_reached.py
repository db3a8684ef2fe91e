"""Proof that the modules 661 to 670 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from relations import batch, distance, draw, future


def p661(m):
    a, b = draw(2, 5, 20), draw(2, 1, 28, seed=1)
    none = [torch.zeros(2, 1, 1, n, dtype=torch.float64) for n in (5, 1, 3)]
    return distance(m(a, none[0], b.repeat(1, 3, 1), none[2])[0], m(a, none[0], b, none[1])[0])  # copies of one key


def p662(m):
    state, seen = (draw(1, 2, 24), draw(1, 2, 24, seed=1)), torch.ones(2, 6, dtype=torch.bool)
    return batch(lambda memory: m(torch.tensor([3, 9]), state, memory, seen)[0], draw(2, 6, 24, seed=2))


def p663(m):
    source, target = (
        torch.randint(1, 25, (2, 7), generator=torch.Generator().manual_seed(0)),
        torch.arange(10).view(2, 5),
    )
    other = source.clone()
    other[:, 5:] = 3
    count = torch.tensor([5, 5])
    return distance(m(other, count, target), m(source, count, target))


def p664(m):
    return future(lambda x: m(x, torch.arange(6)), draw(2, 6, 32))


def p665(m):
    items, clicks, count = draw(2, 3, 16), draw(2, 6, 16, seed=1), torch.tensor([4, 4])
    other = clicks.clone()
    other[:, 4:] *= -3
    return distance(m(items, other, count), m(items, clicks, count))


def p666(m):
    return batch(m, draw(2, 4, 6, 6, 24))


def p667(m):
    shapes, start = torch.tensor([[4, 6], [2, 3], [1, 2]]), torch.tensor([0, 24, 30])
    points, value = torch.rand(2, 5, 3, 2, dtype=torch.float64), draw(2, 32, 24, seed=1)
    return batch(lambda query: m(query, points, value, shapes, start), draw(2, 5, 24))


def p668(m):
    links, x = torch.tensor([[0, 1, 2, 4], [1, 2, 0, 2]]), draw(5, 12)
    return distance(m(x, links), m(x, links))


def p669(m):
    kinds, places, keep = torch.zeros(1, 6, dtype=torch.long), torch.arange(6)[None], torch.tensor([[1, 1, 1, 1, 0, 0]])
    ids, other = torch.tensor([[5, 9, 7, 3, 8, 2]]), torch.tensor([[5, 9, 7, 3, 30, 40]])
    return distance(m(other, kinds, places, keep)[:, :4], m(ids, kinds, places, keep)[:, :4])


def p670(m):
    return batch(m, draw(5, 6, 8))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
