"""Proof that the modules 401 to 407 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from relations import distance, draw, heads, in_chunks


def p401(m):
    x, book = draw(2, 8, 24), m.new_notebook()
    return in_chunks(lambda t, _: (m(t, book), None), m(x), x, (3, 2, 3))


def p402(m):
    x = draw(2, 9, 30)
    q, k = (heads(f(m.norm1(x)), 3).exp().log1p() for f in (m.to_q, m.to_k))
    ones = torch.ones_like(q)
    return distance(m.shares(q, k, ones), ones)


def p403(m):
    x = draw(2, 9, 28)
    with torch.no_grad():
        before = m(x)
        m.kvq.weight[56:] *= 7
        m.kvq.bias[56:] *= 7
    return distance(m(x), before)


def p404(m):
    text, old, new = draw(2, 3, 32), draw(2, 5, 32, seed=1), draw(2, 5, 32, seed=2)
    m.decode_step(text[:, :1], old)
    m.clear()
    return in_chunks(lambda t, _: (m.decode_step(t, new), None), m(text, new), text, (1, 1, 1))


def p405(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, _: (m.step(t), None), m(x), x, (1,) * 8)


def p407(m):
    x = 300 * draw(2, 7, 22)
    return distance(m.float()(x.float()), x)


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
