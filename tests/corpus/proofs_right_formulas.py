"""Proof that the modules 701 to 717 are right: distance to an open formula; below 1e-6."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from proofs_wrong_paths import blocks
from relations import (
    attend,
    causal,
    distance,
    draw,
    field,
    heads,
    merged,
)


def split3(f, x, h):
    return (heads(t, h) for t in f(x).chunk(3, -1))


def differs(f, x, expected):
    """0 where output t depends on exactly the tokens that are expected."""
    return float((field(f, x) != expected).sum())


def turn(t, start=0, base=10000.0):
    """(..., L, D) rotated by halves, the open way: one 2 x 2 rotation per pair."""
    out, half = t.clone(), t.shape[-1] // 2
    for p in range(t.shape[-2]):
        for i in range(half):
            a = (start + p) * base ** (-i / half)
            x, y = t[..., p, i], t[..., p, half + i]
            out[..., p, i], out[..., p, half + i] = x * math.cos(a) - y * math.sin(a), x * math.sin(a) + y * math.cos(a)
    return out


def halves(t):
    """Neighbouring pairs (0, 1), (2, 3) moved to halves, so that `turn` applies."""
    return torch.cat((t[..., ::2], t[..., 1::2]), -1)


def p701(m):
    x = draw(2, 6, 24)
    order = torch.arange(24).view(8, 3).t().flatten()  # feature c * heads + h is channel c of head h
    q, k, v = (heads(f(x)[..., order], 3) for f in (m.to_q, m.to_k, m.to_v))
    return distance(m(x), m.to_out(merged(attend(q, k, v))[..., order.argsort()]))


def p702(m):
    q, k, v = draw(2, 2, 7, 8), draw(2, 2, 7, 8, seed=1), draw(2, 2, 7, 8, seed=2)
    return max(
        distance(m(q, k, v), attend(q, k, v)), distance(m(q, k, v, causal=True), attend(q, k, v, keep=causal(7)))
    )


def p704(m):
    x, args = draw(2, 6, 32), m.args
    y = m.attention_norm(x)
    q, k, v = heads(m.wq(y), 4), heads(m.wk(y), 2), heads(m.wv(y), 2)
    k, v = (torch.stack([t[:, h // 2] for h in range(4)], 1) for t in (k, v))
    x = x + m.wo(merged(attend(turn(halves(q)), turn(halves(k)), v, keep=causal(6))))
    y = m.ffn_norm(x)
    assert args.n_kv_heads == 2
    return distance(m(draw(2, 6, 32)), x + m.w2(F.silu(m.w1(y)) * m.w3(y)))


def p705(m):
    x = draw(2, 7, 32)
    q, k, v = (heads(f(x), 4) for f in (m.q, m.k, m.v))
    return distance(m(x), m.o(merged(attend(turn(halves(q)), turn(halves(k)), v))))


def p706(m):
    src, pos, pad = draw(6, 3, 32), draw(6, 3, 32, seed=1), torch.zeros(3, 6, dtype=torch.bool)
    pad[:, 4:] = True
    w, b = m.self_attn.in_proj_weight, m.self_attn.in_proj_bias
    x = src.transpose(0, 1)
    z = x + pos.transpose(0, 1)
    q, k, v = (heads(F.linear(t, w[i * 32 : i * 32 + 32], b[i * 32 : i * 32 + 32]), 4) for i, t in enumerate((z, z, x)))
    y = m.norm1(x + m.self_attn.out_proj(merged(attend(q, k, v, keep=~pad[:, None, None]))))
    return distance(m(src, pad, pos), m.norm2(y + m.linear2(m.linear1(y).relu())).transpose(0, 1))


def p707(m):
    x = draw(2, 16, 3, 4)
    q, k, v = (f(x).flatten(2).mT for f in (m.queries, m.keys, m.values))
    outs = [q[..., s].softmax(-1) @ (k[..., s].softmax(1).mT @ v[..., s]) for s in (slice(0, 8), slice(8, 16))]
    return distance(m(x), m.reprojection(torch.cat(outs, -1).mT.reshape(2, 16, 3, 4)) + x)


def p708(m):
    x = draw(2, 7, 32)
    q, k, v = split3(m.qkv, x, 4)
    q, k = F.normalize(q.mT, dim=-1), F.normalize(k.mT, dim=-1)
    return distance(m(x), m.proj(merged(((q @ k.mT * m.temperature).softmax(-1) @ v.mT).mT)))


def p709(m):
    x = draw(2, 6, 32)
    q, k, v = split3(m.qkv, x, 4)
    w = torch.einsum("bhij,hg->bgij", q @ k.mT * 8**-0.5, m.pre_softmax_proj).softmax(-1)
    return distance(m(x), m.proj(merged(torch.einsum("bhij,hg->bgij", w, m.post_softmax_proj) @ v)))


def p710(m):
    x = draw(2, 8, 32)
    q, k, v = (heads(t, 2) for t in m.to_qkv(x).chunk(3, -1))
    w = m.kernel(q, True) @ m.kernel(k, False).mT
    return distance(m(x), m.to_out(merged(w / w.sum(-1, keepdim=True) @ v)))


def p711(m):
    x = draw(2, 7, 24)
    q, k = (heads(F.elu(f(x)) + 1, 3) for f in (m.query_projection, m.key_projection))
    w = (q @ k.mT).masked_fill(~causal(7), 0)
    w = w / (w.sum(-1, keepdim=True) + m.eps)
    return distance(m(x), m.out_projection(merged(w @ heads(m.value_projection(x), 3))))


def p712(m):
    x = draw(2, 9, 32)
    q, k, v = split3(m.qkv, x, 4)
    band = causal(9) & torch.ones(9, 9, dtype=torch.bool).triu(-3)
    e = (q @ k.mT * 8**-0.5).exp().masked_fill(~band, 0)
    return distance(m(x), m.o(merged(e / (e.sum(-1, keepdim=True) + m.sinks.exp().view(-1, 1, 1)) @ v)))


def p713(m):
    x = draw(2, 9, 32)
    gap = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    return distance(m(x), merged(attend(*(heads(f(x), 4) for f in (m.query, m.key, m.value)), keep=gap <= 2)))


def p714(m):
    q, k, v = (draw(2, 2, 8, 4, seed=s) for s in range(3))
    i, j = torch.arange(8)[:, None], torch.arange(8)
    return distance(m(q, k, v), attend(q, k, v, keep=(j <= i) & (j // 3 >= i // 3 - 1)))


def p715(m):
    """A softmax over windows of the unshifted map, with the bias looked up pixel by pixel."""
    H, W, w, s = 6, 9, 3, 1
    x = draw(1, H * W, 16)
    q, k, v = split3(m.attn.qkv, m.norm1(x), 2)
    r, c = torch.arange(H * W) // W, torch.arange(H * W) % W
    table = m.attn.relative_position_bias_table
    dr, dc = r[:, None] - r, c[:, None] - c
    bias = table[(dr + w - 1).clamp(0, 4) * 5 + (dc + w - 1).clamp(0, 4)].permute(2, 0, 1)
    y = x + m.attn.proj(merged(attend(q, k, v, keep=blocks(H, W, w, s), bias=bias)))
    return distance(m(x), y + m.mlp(m.norm2(y)))


def p716(m):
    x = draw(2, 8, 5, 6)
    q, k, v = (heads(t.flatten(2).mT, 2) for t in m.qkv(x).chunk(3, 1))
    r, c = torch.arange(30) // 6, torch.arange(30) % 6
    near = ((r[:, None] - r).abs() <= 1) & ((c[:, None] - c).abs() <= 1)
    return distance(m(x), m.proj(merged(attend(q, k, v, keep=near)).mT.reshape(2, 8, 5, 6)))


def p717(m):
    x = draw(2, 16, 3, 5).permute(0, 2, 3, 1).flatten(1, 2)
    r, c = torch.arange(15) // 5, torch.arange(15) % 5
    y = x
    for line, same in ((m.row, r), (m.column, c)):
        y = y + line.proj(merged(attend(*split3(line.qkv, y, 2), keep=same[:, None] == same)))
    return distance(m(draw(2, 16, 3, 5)).flatten(2).mT, y)


def softmax_over_tokens(qkv, out, h, width):
    return lambda m: distance(
        m(draw(2, 7, width)), getattr(m, out)(merged(attend(*split3(getattr(m, qkv), draw(2, 7, width), h))))
    )


PROOFS = {
    701: p701, 702: p702, 703: softmax_over_tokens("qkv", "proj", 4, 32),
    704: p704, 705: p705, 706: p706, 707: p707, 708: p708, 709: p709, 710: p710, 711: p711, 712: p712, 713: p713,
    714: p714, 715: p715, 716: p716, 717: p717,
}  # fmt: skip
