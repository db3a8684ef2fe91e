"""Proof that the modules 901 to 934 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import sys

import torch
from relations import attend, batch, causal, distance, draw, field, future, heads, in_chunks, merged, permuted


def p901(m):
    x = draw(2, 6, 32)
    return distance(m(x), m.wo(merged(attend(*(heads(t, 2) for t in m.wqkv(x).chunk(3, -1)), scale=1 / 16))))


def p902(m):
    x = draw(2, 7, 64)
    q = m.rope(m.q_norm(heads(m.q_proj(x), 4)))
    k = m.rope(m.k_norm(heads(m.k_proj(x), 2))).repeat_interleave(2, 1)
    v = heads(m.v_proj(x), 2).repeat_interleave(2, 1)
    return max(distance(m(x)[0], m.o_proj(merged(attend(q, k, v, keep=causal(7))))), future(m, x))


def p903(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    e = (q @ k.mT / 8**0.5).exp()
    return distance(m(x), m.proj(merged(e / (1 + e.sum(-1, keepdim=True)) @ v)))


def p904(m):
    q, c = draw(2, 4, 32), draw(2, 6, 32, seed=1)
    one = c[:, :1].expand(2, 6, 32)
    order = [3, 1, 5, 0, 2, 4]
    return max(distance(m(q, one, one), m.o(m.v(one[:, :4]))), distance(m(q, c[:, order], c[:, order]), m(q, c, c)))


def p906(m):
    _worst, x = 0.0, draw(1, 8, 12, 16)
    seen = field(lambda t: m(t.reshape(1, 8, 12, 16)).reshape(1, 96, 16), x.reshape(1, 96, 16))

    def at(p):
        return ((p // 12 + 2) // 4, (p % 12 + 2) // 4)

    want = torch.tensor([[at(i) == at(j) for j in range(96)] for i in range(96)])
    return float((seen != want).sum())


def p907(m):
    x, cache = draw(2, 10, 32), m.make_cache(2)
    with torch.no_grad():
        chunks = in_chunks(lambda t, _: (m(t, cache), None), m(x), x, (4, 1, 3, 2))
    i = torch.arange(10)
    return chunks + float((field(m, x) != ((i <= i[:, None]) & (i > i[:, None] - 4))).sum())


def p908(m):
    x, memory = draw(2, 8, 32), []
    return in_chunks(lambda t, _: (m(t, memory), None), m(x), x, (4, 1, 3)) + future(m, x)


def p909(m):
    q, k = draw(16), draw(16, seed=1)
    t = sys.modules[type(m).__module__].turn

    def dot(i, j):
        return (t(q[None].repeat(9, 1), torch.arange(9))[i] * t(k[None].repeat(9, 1), torch.arange(9))[j]).sum()

    return distance(torch.stack([dot(4, 2), dot(1, 5)]), torch.stack([dot(8, 6), dot(3, 7)]))


def p910(m):
    x, keep = draw(2, 8, 32), causal(8)
    keep[:, :3] = True
    return distance(m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1)), keep=keep))))


def p911(m):
    x, ids = draw(2, 8, 32), torch.tensor([[0] * 3 + [1] * 5] * 2)
    whole, parts = m(x, ids), torch.cat([m(x[:, :3], ids[:, :3]), m(x[:, 3:], ids[:, 3:])], 1)
    return max(distance(whole, parts), future(lambda t: m(t, ids), x))


def p912(m):
    f = torch.arange(12) // 4
    return float((field(m, draw(2, 12, 32)) != (f[:, None] >= f)).sum())


def p913(m):
    i = torch.arange(14)
    keep = ((i[:, None] - i).abs() <= 2) | (i < 2) | (i < 2)[:, None]
    return float((field(m, draw(2, 14, 32)) != keep).sum())


def p914(m):
    start = (torch.arange(9) - 1).clamp(0, 6)
    j = torch.arange(9)
    return float((field(m, draw(2, 9, 32)) != ((j >= start[:, None]) & (j < start[:, None] + 3))).sum())


def p915(m):
    x, c = draw(2, 4, 32), draw(2, 10, 32, seed=1)
    k, v = (heads(t, 4) for t in m.kv(c).chunk(2, -1))
    keep = (torch.arange(10) < torch.tensor([10, 6])[:, None])[:, None, None]
    return distance(m(x, c, torch.tensor([10, 6])), m.o(merged(attend(heads(m.q(x), 4), k, v, keep=keep))))


def p916(m):
    x = draw(2, 7, 32)
    q, k = (heads(f(x), 4) for f in (m.q_proj, m.k_proj))
    v = heads(m.v_proj(x), 2)
    one, two = (attend(q[:, i::2], k[:, i::2], v, keep=causal(7)) for i in (0, 1))
    lam = (m.lambda_q1 @ m.lambda_k1).exp() - (m.lambda_q2 @ m.lambda_k2).exp() + m.lambda_init
    return distance(m(x), m.out_proj(merged(m.subln(one - lam * two) * (1 - m.lambda_init))))


def p917(m):
    x, c = draw(2, 4, 32), draw(2, 6, 32, seed=1)
    q = m.fc_q(x)
    o = m.ln0(q + merged(attend(heads(q, 4), heads(m.fc_k(c), 4), heads(m.fc_v(c), 4), scale=32**-0.5)))
    return distance(m(x, c), m.ln1(o + m.fc_o(o).relu()))


def p918(m):
    x, keep = draw(2, 7, 32), torch.ones(2, 7, dtype=torch.bool)
    keep[:, 5:] = False
    return max(distance(m(x, keep), m(x[:, :5])), distance(m(x[:, [4, 2, 6, 0, 1, 3, 5]]), m(x)))


def p919(m):
    x = draw(2, 9, 24)
    return max(distance(m(x[:, [3, 7, 0, 1, 8, 2, 4, 6, 5]]), m(x)), batch(m, x))


def p920(m):
    x = draw(2, 16, 6, 5)
    q, k, v = (t.reshape(2, 2, 8, 30) for t in m.qkv_conv(m.qkv(x)).chunk(3, 1))
    q, k = (t / t.norm(dim=-1, keepdim=True) for t in (q, k))
    return distance(m(x), m.project_out(attend(q, k, v, scale=1.0).reshape(2, 16, 6, 5)))


def p921(m):
    x = draw(2, 16, 8, 6)
    q, k, v = (f(x).reshape(2, 2, 8, -1).mT for f in (m.to_q, m.to_k, m.to_v))
    return distance(m(x), m.to_out(attend(q, k, v).mT.reshape(2, 16, 8, 6)))


def p922(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, s: m(t, s), m(x)[0], x, (3, 1, 4)) + future(m, x)


def p923(m):
    x = draw(2, 7, 32)
    return max(future(m, x), batch(m, x), 1.0 - float(field(m, x)[6].double().mean()))


def p924(m):
    x = draw(2, 6, 32)
    q, k, v, g = (heads(t, 4) for t in m.qkvg(x).chunk(4, -1))
    return distance(m(x), m.out(merged(attend(q, k, v, keep=causal(6)) * g.sigmoid())))


def p925(m):
    data, queries, keep = draw(2, 9, 24), draw(2, 5, 16, seed=1), torch.ones(2, 9, dtype=torch.bool)
    keep[:, 7:] = False
    whole = m(data, queries, keep)
    return max(distance(whole, m(data[:, :7], queries)), distance(whole[:, :1], m(data, queries[:, :1], keep)))


def p926(m):
    x = draw(2, 16, 1, 1).expand(2, 16, 6, 5)
    return max(distance(m(x), m.out(m.value(x))), batch(m, draw(2, 16, 6, 5)))


def p927(m):
    torch.nn.init.ones_(m.W[1].weight)
    return permuted(lambda t: m(t.mT.reshape(2, 16, 5, 6)).flatten(2).mT, draw(2, 30, 16))


def p928(m):
    x, state = draw(8, 2, 32), {}
    parts = torch.cat([m(x[a:b], state) for a, b in ((0, 4), (4, 5), (5, 8))])
    return distance(parts, m(x)) + future(m, x, axis=0)


def p929(m):
    m.eval()
    x, keep = draw(2, 6, 32), torch.tensor([[1] * 4 + [0] * 2] * 2)
    return distance(m(x, keep)[0][:, :4], m(x[:, :4])[0])


def p930(m):
    x = draw(2, 7, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    i = torch.arange(7)
    r = m.distance_embedding.weight[i[:, None] - i + 15]
    bias = (q[:, :, :, None] * r).sum(-1) / 8**0.5
    return distance(m(x), m.proj(merged(attend(q, k, v, bias=bias))))


def p931(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(f(x), 4) for f in (m.q, m.k, m.v))
    pk, pq = (heads(f(m.rel)[None], 4)[0] for f in (m.pos_k, m.pos_q))
    bias = torch.zeros(2, 4, 6, 6, dtype=torch.float64)
    for i in range(6):
        for j in range(6):
            bias[:, :, i, j] = (q[:, :, i] * pk[:, i - j + 16]).sum(-1) + (k[:, :, j] * pq[:, j - i + 16]).sum(-1)
    return distance(m(x), m.o(merged(attend(q, k, v, bias=bias / 24**0.5, scale=24**-0.5))))


def p932(m):
    x, p = draw(2, 9, 16), draw(2, 9, 3, seed=1)
    order = [3, 7, 0, 1, 8, 2, 4, 6, 5]
    return distance(m(x[:, order], p[:, order]), m(x, p)[:, order])


def p933(m):
    x = draw(2, 6, 32)
    return distance(m(x), m.o(merged(attend(*(heads(f(x), 4) for f in (m.q, m.k, m.v))))))


def p934(m):
    x = draw(2, 7, 32)
    y = m.norm(x)
    cls = m.proj(merged(attend(heads(m.q(y[:, :1]), 4), heads(m.k(y), 4), heads(m.v(y), 4))))
    return distance(m(x), torch.cat((x[:, :1] + m.gamma * cls, x[:, 1:]), 1))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
