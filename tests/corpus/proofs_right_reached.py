"""Proof that the modules 681 to 691 are right: distance to an open formula, or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from relations import attend, causal, distance, draw, heads, merged


def p681(m):
    a, b, hide = draw(2, 5, 20), draw(2, 7, 28, seed=1), torch.zeros(2, 1, 1, 7, dtype=torch.float64)
    hide[..., 5:] = -1e9
    none = torch.zeros(2, 1, 1, 5, dtype=torch.float64)
    short = m(a, none, b[:, :5], none)
    return max(distance(m(a, none, b, hide)[0], short[0]), distance(m(a, none, b, hide)[1][:, :5], short[1]))


def p682(m):
    token, state, memory = torch.tensor([3, 9]), (draw(1, 2, 24), draw(1, 2, 24, seed=1)), draw(2, 6, 24, seed=2)
    seen = torch.ones(2, 6, dtype=torch.bool)
    seen[:, 4:] = False
    long, short = m(token, state, memory, seen)[0], m(token, state, memory[:, :4], seen[:, :4])[0]
    alone = m(token[:1], tuple(s[:, :1] for s in state), memory[:1], seen[:1])[0]
    return max(distance(long, short), distance(long[:1], alone))


def p683(m):
    source, target = (
        torch.randint(1, 25, (2, 7), generator=torch.Generator().manual_seed(0)),
        torch.arange(10).view(2, 5),
    )
    long, short = m(source, torch.tensor([5, 5]), target), m(source[:, :5], torch.tensor([5, 5]), target)
    return max(distance(long, short), distance(m(source[:1], torch.tensor([5]), target[:1]), long[:1]))


def p684(m):
    x = draw(2, 6, 32)
    whole = m(x, torch.arange(6))
    q, k, v = (heads(t, m.heads) for t in m.qkv(x).chunk(3, -1))
    open_form = m.out(merged(attend(q, k, v, keep=causal(6))))
    parts = torch.cat([m(x[:, :4], torch.arange(4)), m(x[:, 4:], torch.arange(4, 6))], 1)
    return max(distance(whole, open_form), distance(parts, open_form))


def p685(m):
    items, clicks = draw(2, 3, 16), draw(2, 6, 16, seed=1)
    return distance(m(items, clicks, torch.tensor([4, 4])), m(items, clicks[:, :4], torch.tensor([4, 4])))


def p686(m):
    x = draw(2, 4, 6, 6, 24)
    y = x + m.when + m.row + m.column
    z = m.norms[0](y)
    y = y + torch.stack([m.time(s, s, s)[0] for s in z.flatten(2, 3).unbind(2)], 2).view_as(y)
    z = m.norms[1](y).flatten(2, 3)
    return distance(m(x), y + torch.stack([m.place(s, s, s)[0] for s in z.unbind(1)], 1).view_as(y))


def p687(m):
    shapes = torch.tensor([[4, 6], [2, 3], [1, 2]])
    query, value, points = draw(2, 5, 24), draw(2, 32, 24, seed=1), torch.rand(2, 5, 3, 2, dtype=torch.float64)
    start = torch.tensor([0, 24, 30])
    one = m(query[:1], points[:1], value[:1], shapes, start)
    order = torch.tensor([2, 0, 1, 4, 3])
    both = m(query, points, value, shapes, start)
    return max(
        distance(both[:1], one), distance(m(query[:, order], points[:, order], value, shapes, start), both[:, order])
    )


def p688(m):
    x, links = draw(5, 12), torch.tensor([[0, 1, 2, 4], [1, 2, 0, 2]])
    z = m.lift(x).unflatten(-1, (m.heads, -1))
    keep = torch.eye(5, dtype=torch.bool)
    keep[links[1], links[0]] = True
    score = torch.nn.functional.leaky_relu((z * m.take).sum(-1)[:, None] + (z * m.give).sum(-1)[None], 0.2)
    weights = score.masked_fill(~keep[..., None], -torch.inf).softmax(1)
    return distance(m(x, links), torch.einsum("tsh,shd->thd", weights, z).flatten(1))


def p689(m):
    ids, kinds, places = torch.tensor([[5, 9, 7, 3, 8, 2]]), torch.tensor([[0, 0, 1, 1, 1, 0]]), torch.arange(6)[None]
    long = m(ids, kinds, places, torch.tensor([[1, 1, 1, 1, 0, 0]]))[:, :4]
    return distance(long, m(ids[:, :4], kinds[:, :4], places[:, :4], torch.ones(1, 4, dtype=torch.long)))


def p690(m):
    table = draw(5, 6, 8)
    order = torch.tensor([3, 0, 4, 1, 2])
    x = table + m.out(merged(attend(*(heads(t, 2) for t in m.qkv(m.norm(table)).chunk(3, -1)))))
    y = merged(attend(*(heads(t, 2) for t in m.qkv_across(m.across(x.flatten(1)))[None].chunk(3, -1))))
    return max(distance(m(table[order]), m(table)[order]), distance(m(table), x + m.out_across(y)[0].view_as(x)))


def p691(m):
    m.setup_caches(2, 24)
    return p684(m.double())


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
