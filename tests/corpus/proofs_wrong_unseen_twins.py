"""Proof that the modules 639 to 648 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from relations import batch, distance, draw, field, future, hidden_content, in_chunks, permuted


def p639(m):
    return future(m, draw(2, 8, 20))


def p640(m):
    words, old, new = draw(2, 3, 32), draw(2, 5, 32, seed=1), draw(2, 5, 32, seed=2)
    m.start()
    m(words, old, live=True)
    m.start()
    return distance(m(words, new, live=True), m(words, new))


def p641(m):
    x = draw(2, 8, 40)
    m.clear()
    return in_chunks(lambda t, _: (m(t, decode=True), None), m(x), x, (4, 1, 1, 2))


def p642(m):
    return batch(m, draw(3, 7, 6))


def p643(m):
    return permuted(m, draw(2, 11, 30))


def p644(m):
    x = draw(2, 18, 5, 7).abs() + 0.5
    y = torch.where(x == x.amax((2, 3), keepdim=True), x, x / 2)
    return 1.0 if distance(m(y) / y, m(x) / x) < 1e-9 else 0.0


def p645(m):
    log = torch.tensor([[7, 7, 7, 2, 2, 2]] * 2)
    return hidden_content(lambda t: m(t, log), draw(2, 6, 32), slice(3, 6), slice(0, 3))


def p646(m):
    return float(field(m, draw(2, 12, 32))[11].sum() - m.window)


def p647(m):
    words = torch.arange(16).reshape(2, 8)
    other = words.clone()
    other[:, 7] = 50
    return distance(m(other)[:, :7], m(words)[:, :7])


def p648(m):
    return p644(m)


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
