"""Proof that the modules 481 to 490 and 995 to 999 are wrong: how far the relation that each breaks is off."""

from __future__ import annotations

import torch
from relations import attend, batch, distance, draw, future, heads, largest_gradient, merged


def p481(m):
    where = torch.rand(2, 9, 3, dtype=torch.float64)
    return batch(lambda x: m(x, where), draw(2, 9, 4))


def p482(m):
    done, paid, goal = draw(2, 6, 2, seed=1), draw(2, 6, 1, seed=2), draw(2, 4, seed=3)
    return future(lambda x: m(x, done, paid, goal), draw(2, 6, 5))


def p483(m):
    return distance(*captioned(m))


def captioned(m):
    """(what it gives, what it documents) for a map, a time and a text."""
    x, step, text = draw(2, 20, 4, 6), torch.tensor([3.0, 40.0], dtype=torch.float64), draw(2, 7, 9, seed=1)
    rate = 1e4 ** (-torch.arange(10) / 10)
    waves = torch.cat([(step[:, None] * rate).sin(), (step[:, None] * rate).cos()], -1)
    y = torch.nn.functional.silu(m.before(x)) + m.time(waves)[..., None, None]
    q, (k, v) = m.ask(y.movedim(1, -1).flatten(1, 2)), m.tell(text).chunk(2, -1)
    out = merged(attend(heads(q, 2), heads(k, 2), heads(v, 2)))
    return m(x, step, text), x + m.after(out.unflatten(1, (4, 6)).movedim(-1, 1))


def p484(m):
    return batch(lambda x: m(x)["pieces"], draw(3, 2, 12, 8))


def p485(m):
    shown, here = torch.tensor([[0, 0, 5, 9, 7]]), torch.tensor([[False, False, True, True, True]])
    return float(m(shown, here)[:, 2:].detach().isnan().any())


def p486(m):
    wish, notes, filled = draw(3, 10), draw(3, 6, 14, seed=1), torch.arange(6).expand(3, -1) < 4
    other = notes.clone()
    other[:, 4:] *= -3
    return distance(m(wish, other, filled), m(wish, notes, filled))


def p487(m):
    x = draw(2, 3, 6, 8)
    one, two = m.doors(draw(2, 5, 22), draw(2, 5, 22, seed=1)), m.doors(draw(2, 5, 22, seed=2), draw(2, 5, 22, seed=1))
    still = distance(one, two) + largest_gradient(m, m(x), m.doors.map.weight)
    return 1.0 - still


def p488(m):
    x = draw(2, 4, 6, 20)
    y = m.weeks(x.transpose(1, 2).flatten(0, 1)).unflatten(0, (2, 6)).transpose(1, 2)
    y = m.shops(y.flatten(0, 1)).unflatten(0, (2, 4))
    return distance(m(x), y + m.last(y.relu()))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
