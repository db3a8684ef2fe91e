"""Proof that the modules 850 to 899 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import sys

import torch
from relations import (
    attend,
    causal,
    distance,
    draw,
    field,
    future,
    heads,
    in_chunks,
    largest_gradient,
    merged,
    permuted,
    same_tokens,
)


def p850(m):
    keep = torch.ones(2, 6, dtype=torch.long)
    keep[0, :3] = 0
    return float("inf") if not torch.isfinite(m.float()(draw(2, 6, 32).float(), keep)).all() else 0.0


def p851(m):
    return float("inf") if not torch.isfinite(m(300 * draw(2, 6, 32))).all() else 0.0


def p852(m):
    return float("inf") if not all(torch.isfinite(m(draw(2, 8, 16, seed=s))).all() for s in range(20)) else 0.0


def p853(m):
    one = draw(2, 16, 1, 1)
    a, b = (m(one.expand(2, 16, 2, n)) for n in (2, 5))
    return distance(a[..., 0, 0], b[..., 0, 0])


def p854(m):
    return same_tokens(m, draw(2, 1, 32))


def p855(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    q, k = (t / t.norm(dim=-1, keepdim=True) for t in (q, k))
    return distance(m(x), m.proj(merged(attend(q * m.logit_scale, k, v, scale=1.0))))


def p856(m):
    x = draw(2, 6, 32)
    m.eval()
    return distance(m(x), m(x))


def p857(m):
    x = draw(2, 6, 32)
    m.train()
    return 1.0 if distance(m(x), m(x)) == 0 else 0.0


def p858(m):
    def seeded(x):
        torch.manual_seed(0)
        return m.train()(x)

    return future(seeded, draw(2, 8, 32))


def p859(m):
    x = draw(2, 6, 32)
    return distance(m.train()(x), m.eval()(x))


def p860(m):
    x = draw(2, 6, 32)
    return distance(m(x, torch.ones(2, 6, dtype=torch.bool)), m(x))


def p861(m):
    type(m).forward.__defaults__[0].clear()
    x = draw(2, 6, 32)
    y = m(x)
    again = m(x)
    type(m).forward.__defaults__[0].clear()
    return distance(again, y)


def p862(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, s: m(t, s), m(x)[0], x, (4, 1, 3))


def p863(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, s: m(t, s), m(x)[0], x, (4, 1, 3))


def p864(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, s: m(t, s), m(x)[0], x, (4, 2, 2))


def p865(m):
    x, keep = draw(2, 8, 32), torch.ones(2, 8, dtype=torch.long)
    keep[0, :3] = 0
    _, past = m(x[:, :6], keep[:, :6])
    return distance(m(x[:, 6:], keep, past)[0], m(x, keep)[0][:, 6:])


def p866(m):
    x, cache = draw(2, 8, 32), m.new_cache(2)
    with torch.no_grad():
        return in_chunks(lambda t, _: (m(t, cache), None), m(x), x, (4, 1, 1, 2))


def p868(m):
    return 1.0 if permuted(m, draw(2, 6, 32)) < 1e-6 else 0.0


def p869(m):
    x = draw(2, 6, 32)
    half = sys.modules[type(m).__module__].rope_half
    q, k, v = (heads(t, 2) for t in m.qkv(x).chunk(3, -1))
    return distance(m(x), m.proj(merged(attend(half(q), half(k), v))))


def p870(m):
    x = draw(1, 600, 32)
    freq = 10000.0 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    a = torch.outer(torch.arange(600, dtype=torch.float64), freq).repeat(1, 2)

    def turn(t):
        return t * a.cos() + torch.cat((-t[..., 8:], t[..., :8]), -1) * a.sin()

    q, k, v = (heads(t, 2) for t in m.qkv(x).chunk(3, -1))
    return distance(m(x), m.proj(merged(attend(turn(q), turn(k), v, keep=causal(600)))))


def p871(m):
    x = draw(2, 8, 32)
    i = torch.arange(8)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    bias = -(i[:, None] - i).clamp(min=0) * m.alibi_slopes[:, None, None]
    return distance(m(x), m.proj(merged(attend(q, k, v, keep=causal(8), bias=bias))))


def p873(m):
    return 1.0 if m.relative_position_index.unique().numel() < 49 else 0.0


def p874(m):
    x = draw(2, 4, 8, 16)
    y = x.clone()
    y[:, :, 4:] = draw(2, 4, 4, 16, seed=4)
    return distance(m(y)[:, :, :4], m(x)[:, :, :4])


def p875(m):
    x = draw(2, 8, 8, 16)
    y = x.clone()
    y[:, :2, :2] = draw(2, 2, 2, 16, seed=4)
    return distance(m(y)[:, 4:, 4:], m(x)[:, 4:, 4:])


def p876(m):
    x = draw(2, 16, 8, 8)
    y = x.clone()
    y[..., 6:] = draw(2, 16, 8, 2, seed=4)
    return distance(m(y)[..., :2], m(x)[..., :2])


def p877(m):
    x = draw(2, 6, 6, 16)
    y = x.clone()
    y[:, 2, 2] = 5.0
    return 1.0 if distance(m(y)[:, 1, 1], m(x)[:, 1, 1]) > 1e-3 else 0.0


def p878(m):
    return 1.0 if int(field(m, draw(2, 14, 32))[10].sum()) == 5 else 0.0


def p879(m):
    return future(m, draw(2, 12, 32))


def p880(m):
    return 1.0 if not field(m, draw(2, 12, 16))[11, 0] else 0.0


def p881(m):
    x = draw(2, 10, 32)
    return distance(m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1))))))


def p882(m):
    q, c = draw(2, 4, 32), draw(2, 9, 32, seed=1)
    return 1.0 if distance(m(q, 3 * c + 1), m(q, c)) < 1e-9 else 0.0


def p883(m):
    x = draw(2, 6, 32)
    y = x.clone()
    y[:, 3:] = draw(2, 3, 32, seed=5)
    return 1.0 if distance(m(y)[:, :3], m(x)[:, :3]) < 1e-9 else 0.0


def p884(m):
    a, b = draw(2, 6, 32), draw(2, 6, 32, seed=1)
    return distance(m(a, b)["text"], m(b, a)["image"])


def p885(m):
    return 1.0 if len(list(m.parameters())) == 2 else 0.0


def p886(m):
    m(draw(2, 9, 32)).sum().backward()
    return 1.0 if m.rel_bias.weight.grad is None else 0.0


def p887(m):
    m(draw(2, 4, 32), draw(2, 6, 32, seed=1)).sum().backward()
    return 1.0 if m.q.weight.grad is None else 0.0


def p888(m):
    return 1.0 if largest_gradient(m, m(draw(2, 6, 32)), m.qk.weight) == 0 else 0.0


def p889(m):
    x = draw(2, 16, 5, 6).abs() + 0.5
    g = m(x) / x
    return distance(g[:, :, :1, :1].expand_as(g), g)


def p890(m):
    x = draw(2, 16, 5, 6).abs() + 0.5
    y = x.clone()
    y[:, :, 0, 0] += 1
    y[:, :, 1, 1] -= 1
    return 1.0 if distance((m(y) / y)[:, :, 3:], (m(x) / x)[:, :, 3:]) < 1e-9 else 0.0


def p891(m):
    x = draw(2, 16, 5, 6).abs() + 0.5
    g = m(20 * x) / (20 * x)
    return float(g.detach().abs().max().clamp_min(1) - 1)


def p892(m):
    x = draw(2, 16, 5, 6).abs() + 0.5
    g = m(x) / x
    return distance(g[:, :1].expand_as(g), g)


def p894(m):
    x = draw(2, 16, 5, 6)
    return 1.0 if distance(m(x), x) < 1e-9 else 0.0


def p895(m):
    x = draw(2, 6, 32)
    with torch.no_grad():
        y = x.clone()
        m(y)
    return distance(y, x)


def p896(m):
    keep = torch.ones(2, 6, dtype=torch.bool)
    keep[0] = False
    before = keep.clone()
    m(draw(2, 6, 32), keep)
    return float((keep != before).sum())


def p898(m):
    q, c, n = draw(2, 24), draw(2, 6, 24, seed=1), torch.tensor([4, 4])
    return distance(m(q, c, n)[0], m(q, c[:, :4], n)[0])


def p899(m):
    x, keep = draw(4, 6, 32), torch.ones(4, 6, dtype=torch.bool)
    keep[0, 4:] = False
    return distance(m(x, keep)[1], m(x)[1])


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
