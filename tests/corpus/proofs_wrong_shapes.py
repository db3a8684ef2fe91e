"""Proof that the modules 501 to 552 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from relations import (
    attend,
    batch,
    causal,
    distance,
    draw,
    first,
    future,
    heads,
    hidden_content,
    in_chunks,
    merged,
    permuted,
    same_tokens,
    twice,
)


def scale(q, k, v, out, h, y, keep=None):
    """Distance between what came out and the open formula with 1 / sqrt(d)."""
    return distance(y, out(merged(attend(heads(q, h), heads(k, h), heads(v, h), keep=keep))))


def p501(m):
    x, a = draw(2, 7, 64), m.attention
    y = merged(attend(*(heads(f(x), 4) for f in (a.query, a.key, a.value))))
    return distance(a(x), y)


def p502(m):
    x = draw(2, 6, 40)
    q, k, v = (torch.einsum("bse,nek->bnsk", x, w) for w in (m.WQ, m.WK, m.WV))
    return distance(m(x), torch.einsum("bnik,nke->bie", attend(q, k, v), m.WO))


def p503(m):
    x = draw(2, 7, 48)
    return scale(*m.qkv(x).chunk(3, -1), m.proj, 4, m(x))


def p504(m):
    x = draw(2, 6, 32)
    y = m.fc(merged(attend(*(heads(f(x), 2) for f in (m.w_qs, m.w_ks, m.w_vs))))) + x
    return distance(m(x, x, x)[0], m.layer_norm(y))


def p505(m):
    x = draw(2, 6, 64)
    return scale(*m.c_attn(x).chunk(3, -1), m.c_proj, 4, m(x), causal(6))


def p506(m):
    return twice(lambda x: m(x.transpose(0, 1)).transpose(0, 1), draw(2, 5, 32))


def p507(m):
    y = first(m(draw(2, 4, 24), draw(2, 7, 24, seed=1)))
    return 1.0 if distance(y[:, 1:], y[:, :1].expand(-1, 3, -1)) < 1e-9 else 0.0  # every query reads the same


def keep_last_two_hidden(dtype, length=6, shape=None):
    keep = torch.ones(2, length, dtype=dtype)
    keep[:, -2:] = 0
    return keep if shape is None else keep.view(shape)


def hidden(call, width, keep):
    """Content at two hidden places, seen at the four real ones."""
    return hidden_content(lambda x: call(x, keep), draw(2, 6, width), slice(4, 6), slice(0, 4))


def hidden_memory(call, q, c, keep):
    """The same for a second stream: all outputs."""
    n = q[1]
    return hidden_content(
        lambda x: first(call(draw(*q, seed=5), x, keep)), draw(*c), slice(c[1] - 2, c[1]), slice(0, n)
    )


def p512(m):
    x = draw(3, 5, 24)
    return batch(lambda t: m(t, t), x)


def p513(m):
    x = draw(1, 6, 32)
    y = x.clone()
    y[..., 8:] = draw(1, 6, 24, seed=4)
    probe = []
    m.fc_out.register_forward_pre_hook(lambda _, a: probe.append(a[0]))
    m(x, x, x), m(y, y, y)
    return 1.0 if distance(probe[0][..., :8], probe[1][..., :8]) < 1e-12 else 0.0  # head 0 reads 8 of 32 features


def p514(m):
    probe = []
    m.proj.register_forward_pre_hook(lambda _, a: probe.append(a[0]))
    m(draw(2, 6, 32))
    a, b = probe[0].chunk(4, -1)[:2]
    return 1.0 if distance(a, b) < 1e-12 else 0.0


def pixels(m, x):
    B, C, H, W = x.shape
    return permuted(lambda t: m(t.transpose(1, 2).reshape(B, C, H, W)).flatten(2).transpose(1, 2), x.flatten(2).mT)


def grouped(q, k, v, out, y, h, g, keep=None):
    k, v = (heads(t, g).repeat_interleave(h // g, 1) for t in (k, v))
    return distance(y, out(merged(attend(heads(q, h), k, v, keep=keep))))


def p518(m):
    x = draw(2, 6, 32)
    return grouped(m.W_query(x), m.W_key(x), m.W_value(x), m.out_proj, m(x), 4, 2, causal(6))


def p519(m):
    x = draw(2, 6, 48)
    return grouped(m.q_proj(x), m.k_proj(x), m.v_proj(x), m.o_proj, m(x), 6, 2, causal(6))


def p521(m):
    x = draw(7, 2, 16).transpose(0, 1)
    return distance(m(x, x, x), m(*(x.contiguous() for _ in range(3))))


def independent_queries(f, q):
    """Query 0 while the other queries change."""
    p = q.clone()
    p[:, 1:] *= -2
    return distance(first(f(p))[:, 0], first(f(q))[:, 0])


def p522(m):
    x = draw(2, 7, 16)
    return distance(m(x), attend(m.query(x), m.key(x), m.value(x)))


def p528(m):
    x = draw(2, 6, 32)
    return scale(*m.to_qkv(x).chunk(3, -1), m.to_out, 4, m(x))


def p536(m):
    x, keep = draw(2, 6, 32), keep_last_two_hidden(torch.bool)
    return 1.0 if distance(m(x, keep), m(x)) == 0 else 0.0


def p538(m):
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[0, 4:] = True  # only item 0 hides; item 1 must be as without a mask
    q, c = draw(2, 4, 16), draw(2, 6, 16, seed=1)
    return distance(m(q, c, mask)[1], m(q, c)[1])


def p541(m):
    pad = ~keep_last_two_hidden(torch.bool)
    return hidden_memory(lambda q, c, k: m(q, c, memory_pad=pad), (2, 6, 32), (2, 6, 32), None)


def p542(m):
    keep = torch.ones(2, 6, dtype=torch.bool)
    keep[:, -1] = False
    return hidden_content(lambda c: m(draw(2, 4, 32), c, keep), draw(2, 6, 32, seed=1), slice(5, 6), slice(0, 4))


def p543(m):
    return distance(
        m(draw(2, 6, 24), keep_last_two_hidden(torch.long)), m(draw(2, 6, 24), keep_last_two_hidden(torch.bool))
    )


def p548(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, s: m(t, s, use_cache=True), m(x)[0], x, (4, 1, 3))


def p551(m):
    x, cache = draw(2, 8, 32), type(m.forward.__globals__["LayerCache"]())()
    return distance(m(x, cache), m(x))


PROOFS = {
    501: p501, 502: p502, 503: p503, 504: p504, 505: p505, 506: p506, 507: p507,
    508: lambda m: hidden(m, 64, keep_last_two_hidden(torch.float64)),
    509: lambda m: distance(*(m(draw(2, 4, 24), draw(2, 6, 24, seed=1)[:, order]) for order in (range(6), [3, 1, 5, 0, 2, 4]))),
    510: lambda m: future(m, draw(2, 6, 32)),
    512: p512, 513: p513, 514: p514,
    515: lambda m: pixels(m, draw(2, 16, 3, 5)),
    517: lambda m: batch(m, draw(3, 5, 32)),
    518: p518, 519: p519,
    520: lambda m: permuted(m, draw(2, 6, 32)),
    521: p521, 522: p522,
    523: lambda m: independent_queries(lambda q: m(q, draw(2, 6, 8, seed=1), draw(2, 6, 8, seed=2)), draw(2, 4, 8)),
    524: lambda m: same_tokens(m, draw(2, 1, 24)),
    525: lambda m: batch(m, draw(3, 6, 16)),
    526: lambda m: same_tokens(m, draw(2, 1, 16)),
    527: lambda m: future(m, draw(2, 6, 32)),
    528: p528,
    529: lambda m: hidden(m, 32, keep_last_two_hidden(torch.long)),
    530: lambda m: hidden_memory(m, (2, 4, 32), (2, 7, 20), keep_last_two_hidden(torch.bool, 7)),
    531: lambda m: hidden_memory(m, (2, 4, 20), (2, 6, 20), keep_last_two_hidden(torch.long)),
    532: lambda m: hidden(m, 32, keep_last_two_hidden(torch.bool)),
    533: lambda m: distance(
        m(draw(6, 2, 24), ~keep_last_two_hidden(torch.bool))[:4], m(draw(6, 2, 24)[:4])
    ),
    534: lambda m: hidden_memory(m, (2, 3, 16), (2, 6, 16), keep_last_two_hidden(torch.float64)),
    535: lambda m: hidden(m, 24, keep_last_two_hidden(torch.bool)),
    536: p536,
    537: lambda m: hidden(m, 32, keep_last_two_hidden(torch.long, shape=(2, 1, 6))),
    538: p538,
    539: lambda m: hidden(lambda x, k: m(x, x, x, k), 32, keep_last_two_hidden(torch.long, shape=(2, 1, 6))),
    540: lambda m: hidden(m, 32, torch.log(keep_last_two_hidden(torch.float64, shape=(2, 1, 1, 6)))),
    541: p541, 542: p542, 543: p543,
    544: lambda m: hidden(m, 32, keep_last_two_hidden(torch.bool)),
    545: lambda m: future(m, draw(2, 32, 6), axis=2),
    546: lambda m: float("inf") if not torch.isfinite(m(draw(2, 6, 16))).all() else 0.0,
    547: lambda m: future(m, draw(2, 6, 32)),
    548: p548,
    549: lambda m: future(lambda x: m(x, torch.zeros(2, 6, dtype=torch.bool)), draw(2, 6, 32)),
    550: lambda m: future(m, draw(2, 6, 32)),
    551: p551,
    552: lambda m: future(m, draw(2, 6, 24)),
}  # fmt: skip
