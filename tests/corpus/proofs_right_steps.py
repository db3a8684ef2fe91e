"""Proof that the modules 416 to 423 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from relations import attend, distance, draw, heads, in_chunks, merged


def p416(m):
    x, book = draw(2, 8, 24), m.new_notebook()
    return in_chunks(lambda t, _: (m(t, book), None), m(x), x, (3, 2, 3))


def p417(m):
    x = draw(2, 9, 30)
    q, k, v = (heads(f(m.norm1(x)), 3) for f in (m.to_q, m.to_k, m.to_v))
    weights = F.softplus(q) @ F.softplus(k).mT
    y = x + m.merge(merged(weights / (weights.sum(-1, keepdim=True) + 1e-6) @ v))
    return distance(m(x), y + m.ff(m.norm2(y)))


def p418(m):
    x = draw(2, 9, 28)
    k, v, q = (heads(t, 4) for t in m.kvq(x).chunk(3, -1))
    cosines = F.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)
    return distance(m(x), m.out(merged((m.temperature * cosines).softmax(-1) @ v)))


def p419(m):
    x = draw(2, 9, 28)
    k, v, q = (heads(t, 4) for t in m.kvq(x).chunk(3, -1))
    return distance(m(x), m.out(merged(attend(m.temperature * q, F.normalize(k, dim=-1), v, scale=1.0))))


def p420(m):
    text, old, new = draw(2, 3, 32), draw(2, 5, 32, seed=1), draw(2, 5, 32, seed=2)
    m.decode_step(text[:, :1], old)
    m.clear()
    return in_chunks(lambda t, _: (m.decode_step(t, new), None), m(text, new), text, (1, 1, 1))


def p421(m):
    text, old, new = draw(2, 3, 32), draw(2, 5, 32, seed=1), draw(2, 5, 32, seed=2)
    m.decode_step(text[:, :1], old)
    m.clear()
    same = in_chunks(lambda t, _: (m.decode_step(t, old), None), m(text, old), text, (1, 1, 1))
    m.start_recording(new)
    return max(same, in_chunks(lambda t, _: (m.decode_step(t, new), None), m(text, new), text, (1, 1, 1)))


def p422(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, _: (m.step(t), None), m(x), x, (1,) * 8)


def p423(m):
    x = 300 * draw(2, 7, 22)
    scores = 10 * torch.tanh(m.a(x) @ m.b(x).mT / 11**0.5 / 10)
    exact = distance(m(x), x + m.back(scores.softmax(-1) @ m.c(x)))
    return exact if bool(torch.isfinite(m.float()(x.float())).all()) else 1.0


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
