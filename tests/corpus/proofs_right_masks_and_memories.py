"""Proof that the modules 671 to 680 are right: distance to what they document; below 1e-6."""

from __future__ import annotations

import torch
from relations import attend, distance, draw, heads, hidden_content, merged

KEEP = torch.tensor([[True] * 4 + [False] * 2] * 2)


def p671(m):
    x = draw(2, 6, 30)
    hidden = hidden_content(lambda t: m(t, KEEP), x, slice(4, 6), slice(0, 4))
    return max(hidden, distance(m(x, KEEP)[:, :4], m(x[:, :4])))


def p672(m):
    x, added = draw(2, 6, 24), torch.zeros(2, 6, dtype=torch.double).masked_fill(~KEEP, float("-inf"))
    return max(distance(m(x, added)[:, :4], m(x[:, :4])), distance(m(x, torch.zeros_like(added)), m(x)))


def p673(m):
    x = draw(2, 6, 28)
    return max(distance(m(x, mask)[:, :4], m(x[:, :4])) for mask in (~KEEP, (~KEEP).long(), (~KEEP).double()))


def p675(m):
    x, memory = draw(2, 5, 32), draw(2, 6, 32, seed=1)
    whole = m(torch.cat((memory, x), 1))
    return distance(m(x, memory), whole[:, 6:])


def p676(m):
    x = draw(2, 5, 32)
    k, v = (heads(t, 4) for t in m.kv(torch.cat((m.start.expand(2, 1, -1), x), 1)).chunk(2, 2))
    keep = torch.ones(5, 6, dtype=torch.bool).tril()
    return distance(m(x), m.out(merged(attend(heads(m.q(x), 4), k, v, keep=keep))))


def p677(m):
    voice, piano, every = draw(2, 6, 10), draw(2, 6, 26, seed=1), torch.ones(2, 6, dtype=torch.bool)
    struck = hidden_content(lambda t: m(t, piano, KEEP, every)["struck"], voice, slice(4, 6), slice(0, 6))
    sung = hidden_content(lambda t: m(voice, t, every, KEEP)["sung"], piano, slice(4, 6), slice(0, 6))
    return max(struck, sung)


def p678(m):
    guides, towns = draw(2, 3, 24), draw(2, 6, 24, seed=1)
    return distance(m(guides, towns, ~KEEP), m(guides, towns[:, :4]))


def p679(m):
    guides, towns = draw(2, 3, 24), draw(2, 6, 24, seed=1)
    q, (k, v) = heads(m.q(guides), 4), (heads(t, 4) for t in m.kv(towns).chunk(2, 2))
    scores = (q @ k.mT / 6**0.5).masked_fill(~KEEP[:, None, None], 0.0)
    return distance(m(guides, towns, ~KEEP), m.out(merged((m.cap * torch.tanh(scores / m.cap)).softmax(-1) @ v)))


def p680(m):
    vans, stops, hidden = draw(2, 3, 32), draw(2, 6, 32, seed=1), ~KEEP
    q, k, v = heads(m.ask(vans), 4), heads(m.answer(stops), 4), heads(m.give(stops), 4)
    weights = (8 * torch.tanh(q @ k.mT / 8**0.5)).masked_fill(hidden[:, None, None], float("-inf")).softmax(-1)
    return distance(m(vans, stops, hidden), m.out(merged(weights @ v)))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
