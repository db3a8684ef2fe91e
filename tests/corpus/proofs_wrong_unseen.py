"""Proof that the modules 801 to 849 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

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
)


def memory_content(f, c, hidden):
    """The output while the hidden part of a memory changes."""
    d = c.clone()
    d[:, hidden] = draw(*d[:, hidden].shape, seed=77)
    return distance(first(f(d)), first(f(c)))


def p801(m):
    x = draw(2, 6, 48)
    return distance(m(x), m.dense(merged(attend(*(heads(f(x), 4) for f in (m.query, m.key, m.value))))))


def p802(m):
    x = draw(2, 7, 40)
    q, k, v = torch.einsum("bld,jdhe->jbhle", x, m.w_qkv)
    return distance(m(x), torch.einsum("bhle,hed->bld", attend(q, k, v), m.w_out))


def p803(m):
    x = draw(2, 6, 32)
    return distance(m(x), m.out_proj(merged(attend(*(heads(t, 2) for t in m.in_proj(x).chunk(3, -1))))))


def p804(m):
    x = draw(6, 2, 32)
    q, k, v = (heads(f(x).transpose(0, 1), 4) for f in (m.q_proj, m.k_proj, m.v_proj))
    return distance(m(x)[0], m.out_proj(merged(attend(q, k, v))).transpose(0, 1))


def p805(m):
    x, c = draw(2, 5, 32), draw(2, 7, 24, seed=1)
    k, v = (heads(t, 4) for t in m.to_kv(c).chunk(2, -1))
    return distance(m(x, c), m.to_out(merged(attend(heads(m.to_q(x), 4), k, v))))


def p806(m):
    q, c = draw(2, 3, 32), draw(2, 4, 32, seed=1)
    return distance(m(q, c.repeat(1, 2, 1)), m(q, c))


def p807(m):
    c, q = draw(2, 6, 24), draw(2, 24, seed=1)
    return 1.0 if distance(m(q, c)[0], m(q * 3 + 1, c)[0]) < 1e-9 else 0.0


def p808(m):
    x, bias = draw(2, 6, 32), 2 * draw(2, 6, 6, seed=1)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    return distance(m(x, bias), m.proj(merged(attend(q, k, v, bias=bias[:, None]))))


def p809(m):
    return permuted(m, draw(3, 6, 32))


def p810(m):
    return permuted(m, draw(6, 2, 32), axis=0)


def p811(m):
    return batch(lambda x: m(x, x), draw(3, 5, 32))


def p813(m):
    x = draw(2, 6, 32)
    one = attend(m.q(x), m.k(x), m.v(x))
    return 1.0 if distance(m(x), m.proj(one.repeat(1, 1, 4))) < 1e-9 else 0.0


def p814(m):
    return permuted(lambda t: m(t.mT.reshape(2, 16, 5, 6)).flatten(2).mT, draw(2, 30, 16))


def p815(m):
    return batch(m, draw(3, 7, 32))


def p816(m):
    x = draw(2, 6, 32)
    k, v = (heads(f(x), 2).repeat_interleave(2, 1) for f in (m.wk, m.wv))
    return distance(m(x), m.wo(merged(attend(heads(m.wq(x), 4), k, v, keep=causal(6)))))


def p817(m):
    x = draw(2, 6, 32)
    k, v = (heads(t, 2).repeat_interleave(2, 1) for t in m.kv(x).chunk(2, -1))
    return distance(m(x), m.o(merged(attend(heads(m.q(x), 4), k, v))))


def p819(m):
    q, c = draw(2, 4, 24), draw(2, 6, 24, seed=1)
    return distance(m(q, c, c)[0][:, :1], m(q[:, :1], c, c)[0])


def p820(m):
    return same_tokens(m, draw(2, 1, 32))


def p821(m):
    return batch(m, draw(3, 6, 24))


def p822(m):
    a, b = (m.classifier.weight.new_tensor(0) + m(draw(2, 1, 24).repeat(1, n, 1))[0] for n in (3, 8))
    return distance(a, b)


def p823(m):
    return future(m, draw(2, 6, 32))


def p824(m):
    x = draw(2, 6, 32)
    return distance(m(x), m.to_out(merged(attend(*(heads(t, 4) for t in m.to_qkv(x).chunk(3, -1))))))


def p825(m):
    x, keep = draw(2, 6, 32), torch.tensor([[1] * 4 + [0] * 2, [1] * 6])
    return hidden_content(lambda t: m(t, keep)[0][:1], x, slice(4, 6), slice(0, 4))


def p826(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return hidden_content(lambda t: m(t, keep), x, slice(4, 6), slice(0, 4))


def p827(m):
    x, c, keep = draw(2, 4, 32), draw(2, 6, 32, seed=1), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return memory_content(lambda t: m(x, t, keep), c, slice(4, 6))


def p828(m):
    x = draw(2, 6, 24)
    return distance(m(x, torch.tensor([4, 4])), m(x[:, :4], torch.tensor([4, 4])))


def p829(m):
    q, c = draw(2, 4, 24), draw(2, 6, 24, seed=1)
    n = torch.tensor([4, 4])
    return distance(m(q, c, c, n), m(q, c[:, :4], c[:, :4]))


def p830(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return hidden_content(lambda t: m(t, keep), x, slice(4, 6), slice(0, 4))


def p831(m):
    x, drop = draw(2, 6, 32), torch.zeros(2, 6, dtype=torch.bool)
    drop[:, 4:] = True
    return hidden_content(lambda t: m(t, drop), x, slice(4, 6), slice(0, 4))


def p832(m):
    x, c, keep = draw(2, 10, 32), draw(2, 6, 32, seed=1), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return memory_content(lambda t: m(x, t, keep), c, slice(4, 6))


def p833(m):
    x, drop = draw(6, 3, 32), torch.zeros(3, 6, dtype=torch.bool)
    drop[0, 4:] = True
    return distance(m(x, drop)[:, 1], m(x)[:, 1])


def p834(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.long)
    keep[:, 4:] = 0
    return hidden_content(lambda t: m(t, keep), x, slice(4, 6), slice(0, 4))


def p835(m):
    return future(m, draw(2, 6, 32))


def p836(m):
    x, c, keep = draw(2, 6, 32), draw(2, 6, 32, seed=1), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return memory_content(lambda t: m(x, t, None, keep), c, slice(4, 6))


def p837(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    y = x.clone()
    y[:, 4:] = draw(2, 2, 32, seed=7)
    return distance(m(y, keep), m(x, keep))


def p838(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.long)
    keep[:, 4:] = 0
    return hidden_content(lambda t: m(t, keep), x, slice(4, 6), slice(0, 4))


def p839(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return distance(m(x, keep), m(x[:, :4], keep[:, :4]))


def p840(m):
    x, n = draw(2, 6, 32), torch.tensor([4, 4])
    return hidden_content(lambda t: m(t, n), x, slice(4, 6), slice(0, 4))


def p841(m):
    return future(m, draw(2, 7, 24))


def p842(m):
    return future(m, draw(2, 6, 32))


def p843(m):
    return future(m, draw(2, 6, 32))


def p844(m):
    x = draw(2, 8, 32)
    return in_chunks(lambda t, s: m(t, s), m(x)[0], x, (3, 3, 2))


def p845(m):
    return future(m, draw(2, 20, 32))


def p846(m):
    return future(m, draw(2, 6, 32))


def p847(m):
    adj = torch.ones(2, 5, 5, dtype=torch.bool)
    adj[0, 2] = False
    return float("inf") if not torch.isfinite(m(draw(2, 5, 16), adj)).all() else 0.0


def p848(m):
    x, keep = draw(2, 6, 32).requires_grad_(), torch.ones(2, 6, dtype=torch.bool)
    keep[0] = False
    m(x, keep).sum().backward()
    return float("inf") if not torch.isfinite(x.grad).all() else 0.0


def p849(m):
    x, keep = draw(2, 6, 32).half(), torch.ones(2, 6)
    keep[:, 4:] = 0
    return float("inf") if not torch.isfinite(m.half()(x, keep)).all() else 0.0


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
