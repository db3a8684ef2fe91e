"""Proof that the modules 431 to 435 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from relations import distance, draw, permuted


def p431(m):
    x = draw(2, 4, 6, 24)
    y = x.clone()
    y[:, 2, 2] *= -2  # of the same place as (0, 0), in another tile
    return 1.0 if distance(m(y)[:, 0, 0], m(x)[:, 0, 0]) < 1e-9 else 0.0


def p432(m):
    a, b = draw(2, 24, 7), draw(2, 24, 7, seed=1)
    return distance(m(a, b)[1], m(b, a)[0])


def p433(m):
    x = draw(3, 18, 11).abs() + 0.5
    gate = m(x) / x
    return distance(gate, gate.mean(2, keepdim=True).expand_as(gate))


def p434(m):
    x = draw(2, 14, 6, 9).abs() + 0.5
    gate = m(x) / x
    return distance(gate, gate.mean(1, keepdim=True).expand_as(gate))


def p435(m):
    return max(permuted(m, draw(2, 31, 28)), distance(m(draw(2, 5, 28)), m.leave.bias * torch.zeros(2, 5, 1)))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
