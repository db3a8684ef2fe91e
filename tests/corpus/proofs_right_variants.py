"""Proof that the modules from 718 on are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from proofs_right_formulas import split3, turn
from proofs_wrong_paths import away_from_zero, gate
from relations import (
    attend,
    batch,
    causal,
    distance,
    draw,
    future,
    heads,
    hidden_content,
    in_chunks,
    merged,
)


def p718(m):
    with torch.no_grad():
        m.gamma.fill_(0.7)
    x = draw(2, 16, 4, 5)
    q, k, v = (f(x).flatten(2).mT for f in (m.query_conv, m.key_conv, m.value_conv))
    r, c = torch.arange(20) // 5, torch.arange(20) % 5
    y = attend(q, k, v, keep=(r[:, None] == r) | (c[:, None] == c), scale=1.0)
    return distance(m(x), 0.7 * y.mT.reshape(2, 16, 4, 5) + x)


def p719(m):
    x = draw(1, 8, 6, 6).flatten(2).mT
    r, c = torch.arange(36) // 6 % 3, torch.arange(36) % 6 % 3
    y = m.proj(merged(attend(*split3(m.qkv, x, 2), keep=(r[:, None] == r) & (c[:, None] == c))))
    return distance(m(draw(1, 8, 6, 6)).flatten(2).mT, y)


def p720(m):
    def mab(b, q, k):
        q, k, v = b.fc_q(q), b.fc_k(k), b.fc_v(k)
        o = q + merged(attend(heads(q, 3), heads(k, 3), heads(v, 3), scale=24**-0.5))
        return o + F.relu(b.fc_o(o))

    x = draw(2, 7, 24)
    return distance(m(x), mab(m.mab1, x, mab(m.mab0, m.I.expand(2, -1, -1), x)))


def p721(m):
    x, valid = draw(2, 6, 20), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    y = attend(m.probe.expand(2, 1, -1), m.key(x), m.value(x), keep=valid[:, None])
    return distance(m(x, valid)[1], y[:, 0])


def p722(m):
    q, k, v = draw(2, 3, 16), draw(2, 6, 16, seed=1), draw(2, 6, 16, seed=2)
    s = m.w_v((m.W_q(q)[:, :, None] + m.W_k(k)[:, None]).tanh()).squeeze(-1)
    s[1, :, 4:] = -torch.inf
    return distance(m(q, k, v, torch.tensor([6, 4])), s.softmax(-1) @ v)


def p723(m):
    p = m(draw(2, 3, 16), draw(2, 6, 16), torch.tensor([[False] * 6, [False] * 4 + [True] * 2]))
    return max(distance(p.sum(-1), torch.ones(2, 3)), float(p[1, :, 4:].detach().max()))


def p724(m):
    x = draw(2, 6, 24)
    y = m.norm(x)
    v, g = m.to_hidden(y).chunk(2, -1)
    q, k = (m.to_qk(y) * m.gamma[i] + m.beta[i] for i in (0, 1))
    return distance(m(x), m.to_out(((q @ k.mT / 6).relu().square() @ v) * g) + x)


def p728(m):
    """Mass moved inside a row changes the gates of the touched columns and of no row."""
    x = away_from_zero(1, 16, 5, 7)
    y = x.clone()
    y[0, :, 2, 0] += 1
    y[0, :, 2, 1] -= 1
    return distance(gate(m, y)[0, :, 3:, 3:], gate(m, x)[0, :, 3:, 3:])


def p730(m):
    x = draw(2, 16, 4, 5)
    w = m.conv_mask(x).flatten(2).softmax(-1)
    return distance(m(x), x + m.channel_add_conv((x.flatten(2) * w).sum(-1)[..., None, None]))


def p732(m):
    return batch(m, draw(3, 12, 4, 5))


def p733(m):
    x = draw(2, 8, 32)
    y = m.wo(merged(attend(*split3(m.wqkv, x, 4), keep=causal(8))))

    def step(t, at):
        at = at or 0
        return m(t, torch.arange(at, at + t.shape[1])), at + t.shape[1]

    return max(distance(m(x), y), in_chunks(step, y, x, (4, 1, 3)))


def p734(m):
    x = draw(2, 8, 32)
    q, k, v = split3(m.qkv, x, 4)
    y = m.out(merged(attend(turn(q), turn(k), v, keep=causal(8) & torch.ones(8, 8, dtype=torch.bool).triu(-2))))
    return max(distance(m(x)[0], y), in_chunks(m, y, x, (4, 1, 3)))


def p735(m):
    tgt, mem, pad = draw(2, 5, 32), draw(2, 7, 32, seed=1), torch.zeros(2, 7, dtype=torch.bool)
    pad[:, 5:] = True
    own = hidden_content(lambda c: m(tgt, c, memory_key_padding_mask=pad), mem, slice(5, 7), slice(0, 5))
    pad2 = torch.zeros(2, 5, dtype=torch.bool)
    pad2[:, 3:] = True
    target = hidden_content(lambda t: m(t, mem, tgt_key_padding_mask=pad2), tgt, slice(3, 5), slice(0, 3))
    return max(own, target, future(lambda t: m(t, mem), tgt))


def p736(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return max(distance(m(x, keep)[:, :4], m(x[:, :4])), distance(m(x, keep | True), m(x)), batch(m, x))


def p737(m):
    x = draw(2, 7, 48)
    slopes = [2 ** (-(h + 1)) for h in range(8)] + [2 ** (-(2 * h + 1) / 2) for h in range(4)]
    gap = torch.arange(7)[None] - torch.arange(7)[:, None]
    bias = torch.tensor(slopes, dtype=torch.float64).view(-1, 1, 1) * gap
    return distance(m(x), m.out_proj(merged(attend(*split3(m.Wqkv, x, 12), keep=causal(7), bias=bias))))


def p738(m):
    x = draw(6, 2, 24)
    q, k, v = (t.reshape(6, 2, 3, 8).permute(1, 2, 0, 3) for t in m.qkv_net(x).chunk(3, -1))
    r = m.r_net(m.positions(6, x)).view(6, 3, 8).transpose(0, 1)  # row n stands for distance 5 - n
    s = (q + m.r_w_bias[:, None]) @ k.mT
    for i in range(6):
        for j in range(i + 1):
            s[:, :, i, j] += ((q[:, :, i] + m.r_r_bias) * r[:, 5 - (i - j)]).sum(-1)
    w = (s * 8**-0.5).masked_fill(~causal(6), -torch.inf).softmax(-1)
    return distance(m(x), m.layer_norm(x + m.o_net((w @ v).permute(2, 0, 1, 3).flatten(2))))


def p739(m):
    x = draw(2, 24, 16)
    y = m.norm(m.sr(x.mT.reshape(2, 16, 4, 6)).flatten(2).mT)
    k, v = m.kv(y).chunk(2, -1)
    return distance(m(x, 4, 6), m.proj(merged(attend(heads(m.q(x), 2), heads(k, 2), heads(v, 2)))))


def p740(m):
    x = draw(2, 8, 32)
    k, v = m.proj_k.t() @ m.to_k(x), m.proj_v.t() @ m.to_v(x)
    return distance(m(x), m.to_out(merged(attend(heads(m.to_q(x), 4), heads(k, 4), heads(v, 4)))))


def p741(m):
    a, b = draw(2, 5, 24), draw(2, 5, 24, seed=1)
    k, v = m.kv(b).chunk(2, -1)
    y = a + m.o(merged(attend(heads(m.q(a), 3), heads(k, 3), heads(v, 3))))
    return max(distance(m(a, b)["desc0"], y), distance(m(b, a)["desc1"], y))


def p742(m):
    x, c = draw(2, 5, 32), draw(2, 7, 32, seed=1)
    closed = distance(m(x, c), x)
    with torch.no_grad():
        m.attn_gate.fill_(0.5)
    k, v = m.to_kv(c).chunk(2, -1)
    y = m.to_out(merged(attend(heads(m.to_q(m.norm(x)), 4), heads(k, 4), heads(v, 4))))
    return max(closed, distance(m(x, c), x + math.tanh(0.5) * y))


def p743(m):
    x = draw(2, 8, 32)
    q, k, v = split3(m.to_qkv, x, 4)
    s = q @ k.mT
    keep = (s[..., None] <= s[..., None, :]).sum(-1) <= 4  # fewer than four others are larger
    return distance(m(x), m.to_out(merged(attend(q, k, v, keep=keep))))


def p744(m):
    x, keep = draw(2, 6, 24), draw(2, 6, 6, seed=4) > 0
    keep |= torch.eye(6, dtype=torch.bool)
    y = m.o(merged(attend(*(heads(f(x), 2) for f in (m.q, m.k, m.v)), keep=keep[:, None])))
    empty = keep.clone()
    empty[:, 2] = False
    x.requires_grad_()
    z = m(x, empty)
    z.sum().backward()
    assert torch.isfinite(x.grad).all()
    return max(distance(m(x, keep), y), distance(z[:, 2], m.o.bias.expand(2, -1)))


def p745(m):
    ids = torch.arange(8)[None].repeat(2, 1) * 3 % 40
    x = m.wte(ids) + m.wpe(torch.arange(8))
    for b in m.h:
        x = x + b.c_proj(merged(attend(*split3(b.c_attn, b.ln_1(x), 2), keep=causal(8))))
        x = x + b.mlp(b.ln_2(x))
    return distance(m(ids)[0], m.ln_f(x) @ m.wte.weight.t())


def gate_between(m, low, high, shape):
    """How far out / x leaves [low, high]."""
    g = gate(m, away_from_zero(*shape)).detach()
    return float(torch.maximum(low - g, g - high).max().clamp_min(0))


PROOFS = {
    718: p718, 719: p719, 720: p720, 721: p721, 722: p722, 723: p723, 724: p724,
    725: lambda m: gate_between(m, 0.0, 1.0, (2, 16, 5, 6)),
    726: lambda m: gate_between(m, 0.0, 1.0, (2, 16, 5, 6)),
    727: lambda m: gate_between(m, 1.0, 2.0, (2, 16, 6, 5)),
    728: p728,
    729: lambda m: gate_between(m, 0.5, 1.0, (2, 8, 4, 5)),
    730: p730,
    731: lambda m: gate_between(m, 0.0, 1.0, (2, 6, 4, 5)),
    732: p732, 733: p733, 734: p734, 735: p735, 736: p736, 737: p737, 738: p738, 739: p739, 740: p740, 741: p741,
    742: p742, 743: p743, 744: p744, 745: p745,
}  # fmt: skip
