"""Proof that the modules 761 to 772 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from proofs_right_formulas import split3, turn
from relations import attend, causal, distance, draw, future, heads, hidden_content, merged


def p761(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(f(x), 4) for f in (m.q_proj, m.k_proj, m.v_proj))
    a = torch.arange(6, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    a = torch.cat((a, a), -1)
    turned = m.o_proj(merged(attend(turn(q), turn(k), v, keep=causal(6))))
    plain = m.o_proj(merged(attend(q, k, v, keep=causal(6))))
    return max(distance(m(x, a.cos(), a.sin()), turned), distance(m(x), plain))


def p762(m):
    x, bias = draw(2, 6, 32), draw(2, 4, 6, 6, seed=1)
    y = merged(attend(*(heads(f(x), 4) for f in (m.q, m.k, m.v)), bias=bias))
    return distance(m(x, bias), m.o(torch.sigmoid(m.g(x)) * y))


def p763(m):
    x, keep = draw(2, 6, 32), torch.ones(2, 6, dtype=torch.long)
    keep[0, 4:] = 0
    q, k, v = (heads(f(x), 4) for f in (m.q_lin, m.k_lin, m.v_lin))
    y = attend(q, k, v, keep=keep.bool()[:, None, None])
    y[:, 2] = 0
    return distance(m(x, keep, torch.tensor([1, 1, 0, 1]))[0], m.out_lin(merged(y)))


def p764(m):
    x = draw(2, 12, 16)
    q, k, v = split3(lambda t: m.qkv(t), x, 2)  # both biases start at zero
    q, k = (t / t.norm(dim=-1, keepdim=True) for t in (q, k))
    r, c = torch.arange(12) // 4, torch.arange(12) % 4
    offset = torch.stack(((r[:, None] - r) / 2, (c[:, None] - c) / 3), -1).double() * 8
    offset = offset.sign() * torch.log2(offset.abs() + 1) / 3
    bias = 16 * torch.sigmoid(m.cpb_mlp(offset)).permute(2, 0, 1)
    return distance(m(x), m.proj(merged(attend(m.logit_scale.exp() * q, k, v, bias=bias, scale=1.0))))


def p765(m):
    x = draw(2, 6, 32)
    y = x + m.gamma1 * m.proj(merged(attend(*split3(m.qkv, m.norm1(x), 4))))
    return distance(m(x), y + m.gamma2 * m.mlp(m.norm2(y)))


def p766(m):
    x, keep = draw(2, 8, 32), torch.ones(2, 8, dtype=torch.bool)
    keep[:, 5:] = False
    content = hidden_content(lambda t: m(t, keep), x, slice(5, 8), slice(0, 5))
    return max(content, distance(m(x, keep)[:, :5], m(x[:, :5])), distance(m(x, keep | True), m(x)))


def p767(m):
    x = draw(2, 9, 32)
    q, k, v = heads(m.q_proj(x), 4), heads(m.k_proj(x), 2), heads(m.v_proj(x), 2)
    k, v = (torch.stack([t[:, h // 2] for h in range(4)], 1) for t in (k, v))
    s = 3 * torch.tanh(q @ k.mT / 4 / 3)
    band = causal(9) & torch.ones(9, 9, dtype=torch.bool).triu(-3)
    return distance(m(x), m.o_proj(merged(s.masked_fill(~band, -torch.inf).softmax(-1) @ v)))


def p768(m):
    ids = torch.tensor([[5, 7, 9, 11, 0, 0], [3, 4, 5, 6, 7, 8]])
    return distance(m(ids)[:1, :4], m(ids[:1, :4]))


def p769(m):
    x = draw(2, 6, 24)
    y = m(x, torch.tensor([4, 6]))
    return max(distance(y[:1, :4], m(x[:1, :4])), distance(y[1:], m(x[1:])), float(y[0, 4:].detach().abs().max()))


def p770(m):
    x, keep = draw(2, 6, 24), torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    q, k, v = split3(m.to_qkv, x[:, :4], 3)
    w = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    return distance(m(x, keep)[:, :4], m.to_out(merged(w / w.sum(-1, keepdim=True) @ v)))


def p771(m):
    with torch.no_grad():
        m.proj_out.weight.copy_(draw(32, 32, 1))
    x = draw(2, 32, 3, 4)
    parts = m.qkv(m.norm(x.flatten(2))).view(2, 2, 3, 16, 12)
    q, k, v = (parts[:, :, i].mT for i in range(3))
    return distance(m(x), x + m.proj_out(merged(attend(q, k, v)).mT).reshape_as(x))


def p772(m):
    src, tgt = torch.tensor([[5, 6, 7, 8, 1], [4, 5, 6, 7, 8]]), torch.tensor([[2, 3, 4], [2, 9, 1]])
    memory = distance(m(src, tgt)[:1], m(src[:1, :4], tgt[:1]))
    target = distance(m(src, tgt)[1:, :2], m(src[1:], tgt[1:, :2]))
    embedded = draw(2, 3, 16)
    m.tgt_embed = torch.nn.Identity()
    m.transformer.register_forward_pre_hook(
        lambda _, args, kw: (args, kw | {"tgt_key_padding_mask": None}), with_kwargs=True
    )
    return max(memory, target, future(lambda t: m(src, t), embedded))


PROOFS = {
    761: p761, 762: p762, 763: p763, 764: p764, 765: p765, 766: p766, 767: p767, 768: p768, 769: p769, 770: p770,
    771: p771, 772: p772,
}  # fmt: skip
