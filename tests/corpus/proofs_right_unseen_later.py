"""Proof that the modules 969 to 984 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from relations import attend, batch, causal, distance, draw, field, future, heads, in_chunks, merged, permuted


def p969(m):
    x = draw(2, 8, 32)
    return max(future(m, x), distance(m(x[:, :1].repeat(1, 8, 1))[:, 3:4], m(x[:, :1].repeat(1, 8, 1))[:, :1]))


def p970(m):
    return max(permuted(m, draw(2, 6, 32)), batch(m, draw(2, 6, 32)))


def p971(m):
    x, c, drop = draw(2, 5, 32), draw(2, 7, 32, seed=1), torch.zeros(2, 7, dtype=torch.bool)
    drop[:, 5:] = True
    return distance(m(x, c, drop)[0], m(x, c[:, :5])[0])


def p972(m):
    x = draw(2, 6, 32)
    y, f = m.fused(m.norm(x)).split([96, 128], -1)
    want = x + m.attn_out(merged(attend(*(heads(t, 4) for t in y.chunk(3, -1)), keep=causal(6))))
    return distance(m(x), want + m.ff_out(F.silu(f.chunk(2, -1)[1]) * f.chunk(2, -1)[0]))


def p973(m):
    x = draw(2, 8, 32)
    k, v = m.compress(m.kv(x).mT).mT.chunk(2, -1)
    return distance(m(x), m.o(merged(attend(*(heads(t, 4) for t in (m.q(x), k, v))))))


def p974(m):
    x = draw(2, 6, 32)
    return distance(m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1)), keep=causal(6)))))


def p975(m):
    t, i, keep = draw(2, 6, 32), draw(2, 9, 24, seed=1), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return distance(m(t, i, keep)[:, :4], m(t[:, :4], i))


def p976(m):
    x = draw(2, 4, 5, 16)
    return max(permuted(m, x, axis=1), permuted(m, x, axis=2), distance(m(x.transpose(1, 2)), m(x).transpose(1, 2)))


def p977(m):
    x = draw(2, 10, 32)
    i = torch.arange(10)
    field_ok = float((field(m, x) != ((i <= i[:, None]) & (i > i[:, None] - 4))).sum())
    return field_ok + in_chunks(lambda t, s: m(t, s), m(x)[0], x, (3, 1, 1, 5))


def p978(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    at = (q @ k.mT).argmax(-1)[..., None].expand(-1, -1, -1, 8)
    return distance(m(x), m.proj(merged(v.gather(2, at))))


def p979(m):
    x = draw(2, 6, 24)
    return distance(m(x, torch.tensor([4, 4])), m(x[:, :4]))


def p980(m):
    x = draw(2, 24, 16)
    y = m.norm(F.avg_pool2d(x.mT.reshape(2, 16, 4, 6), 2).flatten(2).mT)
    k, v = m.kv(y).chunk(2, -1)
    return distance(m(x, 4, 6), m.proj(merged(attend(heads(m.q(x), 2), heads(k, 2), heads(v, 2)))))


def p981(m):
    x = draw(2, 7, 32)
    i = torch.arange(7)
    bias = -((i[:, None] - i) ** 2) / (2 * m.log_sigma.exp() ** 2)
    return distance(m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1)), bias=bias))))


def p982(m):
    x = draw(2, 16, 5, 6).abs() + 0.5
    g = m(x) / x
    return max(distance(g[:, :, :1, :1].expand_as(g), g), float((g > 1.000001).double().sum()))


def p983(m):
    ids = torch.randint(0, 40, (2, 7), generator=torch.Generator().manual_seed(0))
    return distance(m(ids)[0][:, :4], m(ids[:, :4])[0])


def p984(m):
    q, k = draw(2, 4, 16), draw(2, 7, 16, seed=1)
    s = -((q[:, :, None] - k[:, None]).square().sum(-1)) * m.w**2 / 2
    return distance(m(q, k, k), s.softmax(-1) @ k)


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
