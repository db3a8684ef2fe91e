"""Proof that the modules 985 to 991 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from relations import attend, batch, causal, distance, draw, heads, merged


def p985(m):
    x = draw(2, 6, 16)
    out = m(x).detach()
    ruled_out = float((out.isneginf().sum(-1) != torch.arange(3)).sum())
    return max(batch(lambda t: m(t).exp(), x), ruled_out, float((out.exp().sum(-1) - 1).abs().max()))


def p986(m):
    x = draw(2, 9, 32)
    out, past = m(x[:, :4])
    later = m(x[:, 4:9], past)[0]  # nine tokens, of which the memory holds the first four: all of them are seen
    return max(distance(torch.cat((out, later), 1), m(x)[0]), float(m(x)[1].shape[1] != 5))


def p987(m):
    x = draw(2, 7, 24)
    k, v = m.kv(x).chunk(2, -1)
    q = m.q(m.seeds.expand(2, -1, -1))
    return distance(m(x), m.out(merged(attend(q[:, None], k[:, None], v[:, None]))))


def p988(m):
    x = draw(2, 6, 32)
    whole = m(x).clone()
    m(draw(2, 6, 32, seed=4))
    out, at = [], 0
    for n in (3, 1, 2):
        out.append(m(x[:, at : at + n], at))
        at += n
    return distance(torch.cat(out, 1), whole)


def p989(m):
    x = draw(2, 6, 32)
    table = torch.zeros(2, 1, 6, 6, dtype=x.dtype).masked_fill(~causal(6), -1e9)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    open_form = m.o(merged(attend(q, k, v, keep=causal(6))))
    return max(distance(m(x), open_form), distance(m(x, table), open_form))


def p990(m):
    """Each pixel sees those of its rolled window from which no border parts it: both at once in rolled coordinates."""
    x = draw(1, 8, 8, 24)
    y = x.roll((-2, -2), (1, 2)).reshape(1, 64, 24)
    r, c = torch.arange(64) // 8, torch.arange(64) % 8

    def one(t):
        return (t[:, None] // 4 == t // 4) & ((t[:, None] >= 6) == (t >= 6))

    q, k, v = (heads(t, 3) for t in m.qkv(y).chunk(3, -1))
    out = m.mix(merged(attend(q, k, v, keep=one(r) & one(c)))).reshape(1, 8, 8, 24).roll((2, 2), (1, 2))
    return distance(m(x), out)


def p991(m):
    x, step = draw(2, 6, 24), m.step
    step.gate.data.fill_(0.5)
    y = x
    for _ in range(2):
        y = y + 0.5 * merged(attend(step.q(y)[:, None], step.k(y)[:, None], step.v(y)[:, None]))
    return distance(m(x), m.last(y))


PROOFS = {int(name[1:]): proof for name, proof in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
