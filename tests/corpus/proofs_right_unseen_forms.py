"""Proof that the modules 935 to 968 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from relations import (
    attend,
    batch,
    causal,
    distance,
    draw,
    field,
    future,
    heads,
    in_chunks,
    merged,
    permuted,
    same_tokens,
    twice,
)


def p935(m):
    x = draw(2, 3, 4, 32)
    a = permuted(m, x, axis=1)
    return max(a, permuted(m, x, axis=2), batch(m, x))


def p936(m):
    x, bias = draw(2, 6, 32), draw(2, 4, 6, 6, seed=1)
    q, k, v = (heads(f(x), 4) for f in (m.linear_q, m.linear_k, m.linear_v))
    return distance(m(x, bias), m.output_layer(merged(attend(q, k, v, bias=bias))))


def p937(m):
    h, adj = draw(2, 6, 16), torch.zeros(2, 6, 6, dtype=torch.float64)
    return max(
        distance(m(h, adj), m.right(h)),
        distance(m(h[:, :4], adj[:, :4, :4] + 1), m(h, F.pad(adj[:, :4, :4] + 1, (0, 2, 0, 2)))[:, :4]),
    )


def p938(m):
    z, keep = draw(1, 5, 5, 16), torch.ones(1, 5, 5, dtype=torch.float64)
    keep[:, 4], keep[:, :, 4] = 0, 0
    return distance(m(z, keep)[:, :4, :4], m(z[:, :4, :4]))


def p939(m):
    x = draw(2, 7, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    b, w = (q @ k.mT / 8**0.5).sigmoid(), torch.zeros(2, 4, 7, 7, dtype=torch.float64)
    for i in range(7):
        rest = torch.ones(2, 4, dtype=torch.float64)
        for j in range(i, -1, -1):
            w[:, :, i, j] = rest * b[:, :, i, j]
            rest = rest * (1 - b[:, :, i, j])
    return distance(m(x), m.proj(merged(w @ v)))


def p940(m):
    x = draw(2, 7, 32)
    g = F.logsigmoid(m.fgate(x)).transpose(1, 2)
    bias = torch.zeros(2, 4, 7, 7, dtype=torch.float64)
    for i in range(7):
        for j in range(i + 1):
            bias[:, :, i, j] = g[:, :, j + 1 : i + 1].sum(-1)
    return distance(
        m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1)), bias=bias, keep=causal(7))))
    )


def p941(m):
    a, b = draw(2, 5, 24), draw(2, 7, 24, seed=1)
    keep = torch.ones(2, 7, dtype=torch.bool)
    keep[:, 5:] = False
    one = distance(m(a, b, None, keep)[0], m(a, b[:, :5])[0])
    return max(one, distance(m(a, b)[1], m(b, a)[0]))


def p942(m):
    c, q = draw(2, 7, 16), draw(2, 5, 16, seed=1)
    return max(distance(m(c, q[:, [4, 2, 0, 1, 3]]), m(c, q)), batch(lambda t: m(t, q), c))


def p943(m):
    x = draw(2, 16, 6, 8)
    g = m(x) / m.trunk(x).clamp_min(1e-9)
    return max(batch(m, x), float((g > 2.000001).double().sum()))


def p944(m):
    x = draw(2, 16, 6, 6).abs() + 0.5
    g = m(x) / x
    return distance(g[:, :, :1, :1].expand_as(g), g)


def p945(m):
    return permuted(lambda t: m(t.mT.reshape(2, 16, 5, 6)).flatten(2).mT, draw(2, 30, 16))


def p946(m):
    return max(
        batch(m, draw(2, 16, 5, 6)), permuted(lambda t: m(t.mT.reshape(2, 16, 5, 6)).flatten(2).mT, draw(2, 30, 16))
    )


def p947(m):
    m.eval()
    x = draw(2, 16, 5, 6)
    w = m.bn.weight.abs() / m.bn.weight.abs().sum()
    y = (x - m.bn.running_mean[:, None, None]) / (m.bn.running_var[:, None, None] + m.bn.eps).sqrt()
    y = y * m.bn.weight[:, None, None] + m.bn.bias[:, None, None]
    return distance(m(x), x * (y * w[:, None, None]).sigmoid())


def p948(m):
    q, v = draw(2, 5, 32), draw(2, 5, 32, seed=1)
    a, b, c = (
        torch.einsum("bld,dhe->bhle", t, w) for t, w in ((q, m.query_kernel), (v, m.key_kernel), (v, m.value_kernel))
    )
    want = torch.einsum("bhle,hed->bld", attend(a, b, c, keep=causal(5)), m.output_kernel)
    return distance(m(q, v, use_causal_mask=True), want)


def p949(m):
    torch.nn.init.ones_(m.gamma)
    x = draw(2, 16, 4, 6)
    pool = F.max_pool2d
    q, k, v = m.theta(x).flatten(2).mT, pool(m.phi(x), 2).flatten(2).mT, pool(m.g(x), 2).flatten(2).mT
    return distance(m(x), x + m.o(attend(q, k, v, scale=1.0).mT.reshape(2, 8, 4, 6)))


def p950(m):
    x = draw(2, 8, 32)
    q, k, v = (heads(t, 4) for t in m.to_qkv(x).chunk(3, -1))
    q = q / 8**0.5
    ql, kl = q.reshape(2, 4, 4, 2, 8).mean(3), k.reshape(2, 4, 4, 2, 8).mean(3)
    one, two, three = (q @ kl.mT).softmax(-1), (ql @ kl.mT).softmax(-1), (ql @ k.mT).softmax(-1)
    return distance(m(x), m.to_out(merged(one @ m.inverse(two) @ three @ v)))


def p951(m):
    x = draw(2, 8, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    i = torch.arange(8)
    w = (q.relu() @ k.relu().mT) * (torch.pi / 2 / 8 * (i[:, None] - i)).cos()
    return distance(m(x), m.proj(merged(w @ v / w.sum(-1, keepdim=True).clamp_min(1e-6))))


def p952(m):
    i = torch.arange(12)
    gap = i[:, None] - i
    return float((field(m, draw(2, 12, 32)) != ((gap >= 0) & ((gap < 3) | (gap % 3 == 0)))).sum())


def p953(m):
    return max(permuted(m, draw(2, 7, 32)), same_tokens(m, draw(2, 1, 32)), twice(m, draw(2, 7, 32)))


def p954(m):
    def f(t):
        return m(t.mT.reshape(2, 16, 5, 6)).flatten(2).mT

    one = draw(2, 1, 16).expand(2, 30, 16)
    return max(
        permuted(f, draw(2, 30, 16)),
        distance(f(one), m.conv_reconstruct(m.convA(one.mT.reshape(2, 16, 5, 6))).flatten(2).mT),
    )


def p955(m):
    x = draw(2, 16, 4, 4)
    t = x.flatten(2).mT
    t = torch.cat((t.mean(1, keepdim=True), t), 1) + m.positional_embedding
    y = attend(*(heads(f(u), 2) for f, u in ((m.q_proj, t[:, :1]), (m.k_proj, t), (m.v_proj, t))))
    return distance(m(x), m.c_proj(merged(y)[:, 0]))


def p956(m):
    x = draw(2, 16, 4, 5)
    q, k, v = (f(x).reshape(2, 2, 8, 20).mT for f in (m.query, m.key, m.value))
    r = (m.rel_h + m.rel_w).flatten(3).mT
    return distance(m(x), attend(q, k + r, v, scale=1.0).mT.reshape(2, 16, 4, 5))


def p957(m):
    c = torch.arange(12) // 4
    x = draw(2, 12, 32)
    a = float((field(m, x) != ((c <= c[:, None]) & (c >= c[:, None] - 1))).sum())
    n = torch.tensor([10, 10])
    return a + distance(m(x, n)[:, :10], m(x[:, :10]))


def p958(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    q, k = (t / t.norm(dim=-1, keepdim=True) for t in (q, k))
    return distance(m(x), m.proj(merged(attend(q * m.logit_scale.exp(), k, v, scale=1.0))))


def p959(m):
    x = draw(2, 8, 32)
    c = m.norm(m.down(x))
    k, v = (torch.einsum("bsc,hdc->bhsd", c, w) for w in (m.up_k, m.up_v))
    want = m.wo(merged(attend(heads(m.wq(x), 4), k, v, keep=causal(8))))
    return distance(m(x)[0], want) + in_chunks(lambda t, s: m(t, s), want, x, (3, 1, 4))


def p960(m):
    s, t, drop = draw(2, 7, 32), draw(2, 5, 32, seed=1), torch.zeros(2, 7, dtype=torch.bool)
    drop[:, 5:] = True

    def f(t):
        return m(s, t, drop).last_hidden_state

    return max(future(f, t), distance(f(t), m(s[:, :5], t).last_hidden_state))


def p961(m):
    ids = torch.randint(1, 50, (2, 5), generator=torch.Generator().manual_seed(0))
    long = F.pad(ids, (0, 2))
    return distance(m(long)["sentence"], m(ids)["sentence"])


def p962(m):
    x = draw(2, 8, 32)
    i = torch.arange(8)
    bias = -(i[:, None] - i).abs() * m.slopes
    return distance(m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1)), bias=bias))))


def p963(m):
    q, c, keep = draw(2, 24), draw(2, 6, 24, seed=1), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    s = m.Va((m.Wa(q)[:, None] + m.Ua(c[:, :4])).tanh()).squeeze(-1).softmax(-1)
    return distance(m(q, c, keep)[0], (s[..., None] * c[:, :4]).sum(1))


def p964(m):
    q, c = draw(2, 24), draw(2, 6, 24, seed=1)
    return distance(m(q, c, torch.tensor([4, 4])), m(q, c[:, :4]))


def p965(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return distance(m(x, keep)[:, :4], m(x[:, :4]))


def p966(m):
    x = draw(2, 6, 32)
    k, v = (heads(t, 2).repeat_interleave(2, 1) for t in m.kv(x).chunk(2, -1))
    return distance(m(x), m.o(merged(attend(heads(m.q(x), 4), k, v, keep=causal(6)))))


def p967(m):
    x = draw(2, 16, 6, 8).abs() + 0.5
    g = m(x) / x
    return max(
        float((g < 0).double().sum() + (g > 1).double().sum()), distance(g[..., 0::2], g[..., 1::2]), batch(m, x)
    )


def p968(m):
    x = draw(2, 6, 32)
    return distance(m(x), m.proj(merged(attend(*(heads(t, 4) for t in m.qkv(x).chunk(3, -1))))))


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
