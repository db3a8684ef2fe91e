"""Proof that the modules 461 to 467 are right: distance to an open formula; below 1e-6."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from proofs_right_formulas import split3
from relations import attend, distance, draw, heads, merged


def p461(m):
    x, gaps = draw(2, 6, 24), torch.zeros(2, 6, dtype=torch.bool)
    gaps[0, 4:] = True
    k, v = m.answer(x)[:, None].chunk(2, -1)
    y = merged(attend(heads(m.ask(x), 3), k, v, keep=~gaps[:, None, None]))
    return distance(m(x, gaps), m.back(y))


def p462(m):
    x = draw(2, 9, 10)
    parts = m.seed.expand(2, -1, -1)
    for _ in range(2):
        q, k = m.to_q(m.norm(parts)), m.to_k(x)
        share = torch.einsum("bid,bjd->bij", q, k).div(4).softmax(1) + 1e-8
        mean = torch.einsum("bij,bjd->bid", share / share.sum(-1, keepdim=True), m.to_v(x))
        parts = torch.stack([m.update(a, b) for a, b in zip(mean, parts, strict=True)])
    return distance(m(x), parts)


def p463(m):
    x = draw(2, 8, 18)
    share = m.assign(x).softmax(-1)
    held = (share[..., None] * (x[:, :, None] - m.centres)).sum(1)
    held = F.normalize(held, dim=-1).flatten(1)
    return distance(m(x), m.reduce(F.normalize(held, dim=-1)))


def p464(m):
    x, t = draw(2, 9, 16), torch.arange(9)
    q, k, v = (heads(f(x), 2) for f in (m.q, m.k, m.v))
    back = t[:, None] - t
    keep = torch.stack([(back >= 0) & (back % r == 0) & (back <= 3 * r) for r in (1, 3)])
    return distance(m(x), m.o(merged(attend(q, k, v, keep=keep))))


def p465(m):
    x, t = draw(2, 8, 12), torch.arange(8)
    q, k, v = split3(m.qkv, x, 2)
    near = (t[:, None] + torch.arange(-2, 3)).clamp(0, 7)
    often = F.one_hot(near, 8).sum(1).double()  # how many times each token is seen
    return distance(m(x), m.merge(merged(attend(q, k, v, bias=often.log()))))


def p466(m):
    x, t = draw(2, 12, 18), torch.arange(12)
    keep = (t[:, None] >= t) & (t[:, None] // 5 - t // 5 <= 1)
    return distance(m(x), m.out(merged(attend(*split3(m.qkv, x, 3), keep=keep))))


def p467(m):
    x, mood = draw(2, 6, 28), draw(2, 5, seed=1)
    made = m.make(mood).reshape(2, 2, 2, 28)
    k = m.k(x) + torch.einsum("bnc,brc,bre->bne", x, made[:, 0], made[:, 1])
    return distance(m(x, mood), m.o(merged(attend(heads(m.q(x), 4), heads(k, 4), heads(m.v(x), 4)))))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
