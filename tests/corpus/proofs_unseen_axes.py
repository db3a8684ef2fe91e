"""Proof of the modules 610 to 626 (wrong, above 1e-3) and 692 to 700 (right, below 1e-6), in plain torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from relations import attend, batch, distance, draw, heads, merged, permuted, same_tokens


def kernel():
    return draw(2, 4, 6, 8), draw(2, 4, 9, 8, seed=1), draw(2, 4, 9, 8, seed=2)


def p610(m):
    q, k, v = kernel()
    return distance(m(q.transpose(1, 2).contiguous().transpose(1, 2), k, v), m(q, k, v))


def grouped(m, x):
    q, k, v = heads(m.ask(x), 8), heads(m.keys(x), 2), heads(m.values(x), 2)
    return m.out(merged(attend(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1))))


def p611(m):
    x = draw(2, 9, 64)
    return distance(m(x), grouped(m, x))


def p619(m):
    return same_tokens(m, draw(2, 1, 30))


def p621(m):
    return same_tokens(m, draw(3, 1, 26))


def p623(m):
    return permuted(m, draw(2, 36, 10), axis=2)


def p625(m):
    return permuted(m, draw(2, 12, 9), axis=2)


def p626(m):
    return batch(m, draw(3, 5, 28))


def p692(m):
    q, k, v = kernel()
    return max(distance(m(t, k, v), attend(q, k, v)) for t in (q, q.mT.contiguous().mT))


def p693(m):
    x = draw(2, 9, 64)
    return distance(m(x), grouped(m, x))


def p694(m):
    x = draw(2, 7, 30)
    return max(same_tokens(m, x[:, :1]), permuted(m, x), batch(m, x))


def p695(m):
    x = draw(2, 7, 18)
    y = F.normalize(x, dim=-1)
    share = m.assign(y).softmax(-1)
    gap = torch.einsum("bnk,bnd->bkd", share, y) - share.sum(1)[..., None] * m.centres
    return distance(m(x), F.normalize(F.normalize(gap, dim=-1).flatten(1), dim=-1))


def p696(m):
    return same_tokens(m, draw(3, 1, 26))


def p697(m):
    x = draw(2, 36, 10)
    return max(permuted(m, x, axis=2), batch(m, x))


def p698(m):
    x = draw(2, 12, 9)
    return max(permuted(m, x, axis=2), batch(m, x))


def p699(m):
    x = draw(5, 3, 28)
    return max(batch(m, x, axis=1), permuted(m, x, axis=0))


def p700(m):
    slots, inputs = draw(2, 4, 22), draw(2, 9, 22, seed=1)
    norm = m.norm_inputs(inputs)
    for _ in range(2):
        scores = torch.einsum("bid,bjd->bij", m.to_q(m.norm_slots(slots)) * 22**-0.5, m.to_k(norm))
        share = scores.softmax(1) + m.eps
        new = (share / share.sum(-1, keepdim=True)) @ m.to_v(norm)
        slots = m.update(new.reshape(-1, 22), slots.reshape(-1, 22)).view(2, 4, 22)
    return distance(m(draw(2, 4, 22), inputs), slots)


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
