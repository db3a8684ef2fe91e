"""Proof that the modules 633 to 638 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from relations import distance, draw, field, future


def p633(m):
    state, entries, keep = draw(2, 20), draw(2, 6, 20, seed=1), torch.ones(2, 6, dtype=torch.float64)
    keep[:, 4:] = 0
    other = entries.clone()
    other[:, 4:] *= -3
    return distance(m(state, other, keep), m(state, entries, keep))


def p634(m):
    i = torch.arange(9)
    asked = (i <= i[:, None]) & (i > i[:, None] - 3)
    return float((field(m, draw(2, 9, 24)) != asked).sum())


def p635(m):
    x = draw(2, 16, 5, 7).abs() + 0.5
    gate = m.weigh(x) / x
    return distance(gate[:, :, :1], gate[:, :, 1:2])


def p636(m):
    x = draw(2, 20, 6)
    q, k, v = (
        t.view(2, 6, 2, 10).transpose(1, 2) for t in m.qkv(m.norm(x).transpose(1, 2)).chunk(3, -1)
    )  # rows that are frames
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 6, 20)
    return distance(m(x), x + m.out(y).transpose(1, 2))


def p637(m):
    return future(m, draw(2, 7, 18))


def p638(m):
    x, count = draw(2, 6, 24), torch.tensor([4, 4])
    return distance(m(x, count), m(x[:, :4], count))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
