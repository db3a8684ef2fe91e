"""Proof that the modules 491 to 500 are right: distance to an open formula, or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from proofs_wrong_small_models import captioned
from relations import attend, batch, distance, draw, future, heads, merged


def p491(m):
    x, where = draw(2, 9, 4), torch.rand(2, 9, 3, dtype=torch.float64)
    order = torch.tensor([4, 0, 8, 2, 1, 7, 3, 6, 5])
    moved = distance(m(x[:, order], where[:, order]), m(x, where)[:, order])
    return max(moved, distance(m(x[:1], where[:1]), m(x, where)[:1]), batch(lambda y: m(y, where), x))


def p492(m):
    done, paid, goal = draw(2, 6, 2, seed=1), draw(2, 6, 1, seed=2), draw(2, 4, seed=3)
    return future(lambda x: m(x, done, paid, goal), draw(2, 6, 5))


def p493(m):
    return distance(*captioned(m))


def p494(m):
    x, blank = draw(7, 3, 18), torch.arange(7) > torch.tensor([[6], [4], [2]])
    q, k, v = (heads(t, 3) for t in m.qkv(m.norm(x.transpose(0, 1))).chunk(3, -1))
    wanted = x + m.out(merged(attend(q, k, v, keep=~blank[:, None, None]))).transpose(0, 1)
    return distance(m(x, blank), wanted)


def p495(m):
    x = draw(3, 2, 12, 8)
    squares = m.cut(x).flatten(2).mT
    y = m.layers(torch.cat((m.summary.expand(3, -1, -1), squares), 1))
    alone = max(batch(lambda v: m(v)["pieces"], x), batch(lambda v: m(v)["names"], x))
    return max(alone, distance(m(x)["names"], m.name(y[:, 0])), distance(m(x)["pieces"], y[:, 1:]))


def p496(m):
    shown, here = torch.tensor([[5, 9, 7, 0, 0]]), torch.tensor([[True, True, True, False, False]])
    return distance(m(shown, here)[:, :3], m(shown[:, :3]))


def p497(m):
    shown, here = torch.tensor([[0, 0, 5, 9, 7]]), torch.tensor([[False, False, True, True, True]])
    other = torch.tensor([[30, 20, 5, 9, 7]])
    return max(distance(m(other, here)[:, 2:], m(shown, here)[:, 2:]), p496(m))


def p498(m):
    wish, notes, shut = draw(3, 10), draw(3, 6, 14, seed=1), torch.arange(6).expand(3, -1) > 3
    return distance(m(wish, notes, shut), m(wish, notes[:, :4]))


def p499(m):
    coarse, fine = draw(2, 5, 22), draw(2, 5, 22, seed=1)
    score = m.doors.map((m.doors.of_coarse(coarse) + m.doors.of_fine(fine)).relu())
    weight = score.exp() / score.exp().mean(1, keepdim=True)
    return distance(m.doors(coarse, fine), fine * weight)


def p500(m):
    x = draw(2, 7, 20)
    y = x + m.out(merged(attend(*(heads(t, 2) for t in m.qkv(x).chunk(3, -1)))))
    return distance(m(x), y + m.experts[0](y))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
