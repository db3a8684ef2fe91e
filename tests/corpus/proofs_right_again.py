"""Proof that the modules 746 to 760 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from proofs_right_formulas import split3
from relations import attend, causal, distance, draw, heads, in_chunks, merged


def p746(m):
    x = draw(2, 6, 32)
    parts = m.query_key_value(x).view(2, 6, 4, 3, 8)
    q, k, v = (parts[..., i, :].transpose(1, 2) for i in range(3))
    return distance(m(x), m.dense(merged(attend(q, k, v, keep=causal(6)))))


def p747(m):
    x = draw(2, 6, 24)
    return distance(m(x)[0], attend(m.q(x), m.k(x), m.v(x)))


def p748(m):
    h, c, keep = draw(2, 3, 20), draw(2, 6, 20, seed=1), torch.ones(2, 6, dtype=torch.float64)
    keep[0, 4:] = 0
    s = m.alpha((m.ctx2att(c)[:, None] + m.h2att(h)[:, :, None]).tanh()).squeeze(-1)
    s = s.masked_fill(keep[:, None] == 0, -torch.inf)
    return distance(m(h, c, keep), s.softmax(-1) @ c)


def p749(m):
    x = draw(2, 6, 32)
    z = m.norm_latents(m.latents).expand(2, -1, -1)
    k, v = m.to_kv(torch.cat((m.norm_media(x), z), 1)).chunk(2, -1)
    return distance(m(x), m.latents + m.to_out(merged(attend(heads(m.to_q(z), 4), heads(k, 4), heads(v, 4)))))


def mha(layer, q, k, v):
    w, b = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    q, k, v = (heads(t @ w[i].t() + b[i], 4) for i, t in enumerate((q, k, v)))
    return layer.out_proj(merged(attend(q, k, v)))


def p750(m):
    t, c, pos, query_pos = draw(2, 4, 32), draw(2, 7, 32, seed=1), draw(2, 7, 32, seed=2), draw(2, 4, 32, seed=3)
    x = m.norm1(t + mha(m.self_attn, t + query_pos, t + query_pos, t))
    x = m.norm2(x + mha(m.cross_attn, x + query_pos, c + pos, c))
    return distance(m(t, c, pos, query_pos), m.norm3(x + m.linear2(m.linear1(x).relu())))


def p751(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(f(x), 4) for f in (m.q, m.k, m.v))
    gap = torch.arange(6)[None] - torch.arange(6)[:, None]
    bias = m.relative_attention_bias(m.bucket(gap)).permute(2, 0, 1)
    keep = torch.tensor([True] * 4 + [False] * 2)
    y = m.o(merged(attend(q, k, v, bias=bias, keep=keep, scale=1.0)))
    return distance(m(x, torch.where(keep, 0.0, -torch.inf).to(x.dtype)[None, None, None])[0], y)


def p752(m):
    x, mask = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.bool)
    mask[0, 4:] = False
    q, k, v = m.qkv(x).chunk(3, -1)
    k, v = (torch.cat((p.expand(2, -1, -1), t), 1) for p, t in ((m.prefix_k, k), (m.prefix_v, v)))
    keep = torch.cat((torch.ones(2, 6, 3, dtype=torch.bool), causal(6) & mask[:, None]), -1)[:, None]
    return distance(m(x, mask), m.out(merged(attend(heads(q, 4), heads(k, 4), heads(v, 4), keep=keep))))


def p753(m):
    x, c, keep = draw(2, 4, 20), draw(2, 6, 20, seed=1), draw(2, 4, 6, seed=2) > -0.5
    keep[..., 0] = True
    q, k, v = (torch.einsum("btc,chd->bhtd", t, w) for t, w in ((x, m.wq), (c, m.wk), (c, m.wv)))
    y = torch.einsum("bhtd,hdc->btc", attend(q, k, v, keep=keep[:, None]), m.wo)
    return distance(m(x, c, attention_mask=keep), y)


def p754(m):
    x = draw(2, 7, 32)
    q, v = heads(m.toqk(x), 4), heads(m.tov(x), 4)
    k = q / q.norm(dim=-1, keepdim=True)
    return distance(m(x), m.to_out(merged(attend(q, k, v, keep=~torch.eye(7, dtype=torch.bool)))))


def p755(m):
    with torch.no_grad():
        m.pam.gamma.fill_(0.5), m.cam.gamma.fill_(0.25)
    x = draw(2, 16, 4, 5)
    q, k, v = (f(x).flatten(2).mT for f in (m.pam.query_conv, m.pam.key_conv, m.pam.value_conv))
    f = x.flatten(2)
    channels = (-(f @ f.mT)).softmax(-1) @ f
    return distance(m(x).flatten(2), 0.5 * attend(q, k, v, scale=1.0).mT + 0.25 * channels + 2 * f)


def p756(m):
    x = draw(2, 8, 9, 8)
    return distance(m(x), x * m.conv1(m.conv_spatial(m.conv0(x))))


def p757(m):
    x = draw(2, 16, 6, 5)
    a, b = (conv(x) for conv in m.convs)
    z = m.fc((a + b).mean((2, 3)))
    w = torch.sigmoid(m.fcs[0](z) - m.fcs[1](z))[..., None, None]  # a softmax over two
    return distance(m(x), w * a + (1 - w) * b)


def p758(m):
    x = draw(2, 8, 20)
    s = m.position_biases[:, :, None] + m.fc_k(x)[:, None]  # (B, t, s, channel)
    y = torch.sigmoid(m.fc_q(x)) * torch.einsum("btsd,bsd->btd", s.softmax(2), m.fc_v(x))
    return distance(m(x), y)


def p759(m):
    x = draw(2, 9, 32)
    keep = causal(9) & torch.ones(9, 9, dtype=torch.bool).triu(-2)
    keep[:, 0] = True
    return distance(m(x), m.out(merged(attend(*split3(m.qkv, x, 4), keep=keep))))


def p760(m):
    x = draw(2, 8, 32)
    y = x
    for qkv, out in zip(m.qkv, m.out, strict=True):
        y = y + out(merged(attend(*split3(qkv, y, 4), keep=causal(8))))

    def step(t, cache):
        got = m(t, cache, use_cache=True)
        return got.last_hidden_state, got.past_key_values

    return max(distance(m(x).last_hidden_state, y), in_chunks(step, y, x, (4, 1, 3)))


PROOFS = {
    746: p746, 747: p747, 748: p748, 749: p749, 750: p750, 751: p751, 752: p752, 753: p753, 754: p754, 755: p755,
    756: p756, 757: p757, 758: p758, 759: p759, 760: p760,
}  # fmt: skip
