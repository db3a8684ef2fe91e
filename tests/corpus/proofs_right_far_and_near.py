"""Proof that the modules 446 to 456 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from relations import attend, batch, distance, draw, future, heads, merged, permuted


def p446(m):
    asks, visits = draw(2, 4, 20), draw(2, 9, 20, seed=1)
    seen = torch.ones(2, 9, dtype=torch.bool)
    seen[:, :3] = False
    return distance(m(asks, visits, seen), m(asks, visits[:, 3:]))


def p447(m):
    x = draw(9, 3, 24)
    return max(future(m, x, axis=0), batch(m, x, axis=1))


def tiles(m, x, far, bias=0.0):
    q, k, v = m.enter(x).chunk(3, -1)
    out = torch.zeros_like(q)
    for r in range(2):
        for c in range(x.shape[2] // 2 if not far else 2):
            at = (
                (slice(None), slice(r, None, 2), slice(c, None, 2))
                if far
                else (slice(None), slice(2 * r, 2 * r + 2), slice(2 * c, 2 * c + 2))
            )
            parts = [heads(t[at].flatten(1, 2), 3) for t in (q, k, v)]
            out[at] = merged(attend(*parts, bias=bias)).reshape(out[at].shape)
    return m.leave(out)


def p448(m):
    x = draw(2, 4, 6, 24)
    return distance(m(x), tiles(m, x, far=True))


def p449(m):
    x = draw(2, 4, 6, 24)
    return distance(m(x), tiles(m, x, far=False, bias=m.bias[:, 0, 0]))


def p450(m):
    a, b = draw(2, 24, 7), draw(2, 24, 7, seed=1)
    return max(distance(m(a, b)[1], m(b, a)[0]), permuted(lambda t: m(t, b), a, axis=2))


def p451(m):
    x = draw(3, 16, 11)
    return permuted(m, x, axis=2) + max(distance(m(x[..., t : t + 1]), m(x)[..., t : t + 1]) for t in (0, 7))


def p452(m):
    x = draw(3, 18, 11).abs() + 0.5
    gate = m(x) / x
    return distance(gate, gate.mean(2, keepdim=True).expand_as(gate))


def p453(m):
    x = draw(2, 14, 6, 9).abs() + 0.5
    gate = m(x) / x
    return distance(gate, gate.mean(1, keepdim=True).expand_as(gate))


def p454(m):
    x = draw(2, 14, 6, 9)
    pooled = torch.stack([x.std(1), x.mean(1)], 1)
    return distance(m(x), x / (1 + m.look(pooled).neg().exp()))


def p455(m):
    return max(permuted(m, draw(2, n, 28)) for n in (5, 24, 31, 50))


def p456(m):
    ids = torch.arange(14).reshape(2, 7)
    x = m.table.weight[ids]
    q, k, v = (heads(t, 2) for t in m.enter(x).chunk(3, -1))
    return max(distance(m(ids.double()), m(ids)), distance(m(ids), x + m.leave(merged(attend(q, k, v)))))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
