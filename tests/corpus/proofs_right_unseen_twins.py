"""Proof that the modules 785 to 800 and 992 to 994 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
from relations import attend, batch, distance, draw, field, heads, hidden_content, in_chunks, merged, permuted


def p785(m):
    words, old, new = draw(2, 6, 32), draw(2, 5, 32, seed=1), draw(2, 5, 32, seed=2)
    m.start()
    m(words, old, live=True)
    m.start()
    return in_chunks(lambda t, _: (m(t, new, live=True), None), m(words, new), words, (3, 1, 2))


def p786(m):
    x = draw(2, 8, 40)
    m(x, decode=True)
    m.clear()
    return in_chunks(lambda t, _: (m(t, decode=True), None), m(x), x, (4, 1, 1, 2))


def p787(m):
    x = draw(6, 11, 3)
    return max(permuted(m, x, axis=0), batch(m, x, axis=1))


def p788(m):
    return max(permuted(m, draw(2, n, 30)) for n in (5, 8, 11, 17))


def p789(m):
    x = draw(2, 18, 5, 7)
    vote = m.votes(x.mean((2, 3))) + m.votes(x.amax((2, 3)))
    return distance(m(x), x / (1 + vote[..., None, None].neg().exp()))


def p790(m):
    x, log = draw(2, 6, 32), torch.tensor([[7, 7, 7, 2, 2, 2]] * 2)
    alone = distance(m(x, log)[:, 3:], m(x[:, 3:]))
    return max(alone, hidden_content(lambda t: m(t, log), x, slice(3, 6), slice(0, 3)))


def p791(m):
    x, who = draw(2, 7, 36), torch.tensor([[0, 1, 1, 0, 0, 1, 0]] * 2)
    h = m.norm(x + m.speaker.weight[who])
    return distance(m(x, who), x + m.o(merged(attend(*(heads(p(h), 6) for p in (m.q, m.k, m.v))))))


def p792(m):
    x, kin = draw(2, 7, 24), torch.tensor([[5, 5, 5, 1, 1, 8, 8]] * 2)
    gaps = [[min(max(s - t, -4), 4) + 4 for s in range(7)] for t in range(7)]
    same = [[int(kin[0, t] == kin[0, s]) for s in range(7)] for t in range(7)]
    bias = m.table[torch.tensor(same), torch.tensor(gaps)]
    q, k, v = (heads(t, 3) for t in m.mix_in(x).chunk(3, -1))
    return distance(m(x, kin), m.mix_out(merged(attend(q, k, v, bias=bias.permute(2, 0, 1)))))


def p793(m):
    i = torch.arange(12)
    return float((field(m, draw(2, 12, 32)) != ((i <= i[:, None]) & (i > i[:, None] - m.window))).sum())


def p794(m):
    return permuted(m, torch.arange(14).reshape(2, 7))


def p795(m):
    return max(permuted(m, draw(2, 7, 28)), batch(m, draw(2, 7, 28)))


def p796(m):
    x, state = draw(2, 9, 32), torch.tensor([[2, 1, 1, 1, 1, 2, 1, 0, 0]] * 2)
    sees = field(lambda t: m(t, state), x)
    i = torch.arange(9)
    asked = (((i - i[:, None]).abs() <= 3) | (state[0] == 2) | (state[0] == 2)[:, None]) & (state[0] > 0)
    return float((sees != (asked & (state[0] > 0)[:, None])).sum()) + distance(
        m(x, state)[:, :7], m(x[:, :7], state[:, :7])
    )


def p797(m):
    ids, asked = torch.arange(16).reshape(2, 8), torch.tensor([3, 3])
    other = ids.clone()
    other[:, 2] = 50
    open_inside = distance(m(other, asked)[:, 0], m(ids, asked)[:, 0]) > 1e-3
    cut = max(distance(m(ids, asked)[:, :n], m(ids[:, :n], asked)) for n in (3, 4, 7))
    return max(cut, distance(m(ids)[:, :3], m(ids[:, :3])), 0.0 if open_inside else 1.0)


def p798(m):
    x = draw(2, 6, 32)
    q = m.ask(x).unflatten(-1, (2, 2, -1))
    a, b = (torch.einsum("bthc,hsc->bths", q[..., p, :], m.lists[:, p]) for p in (0, 1))
    best, at = (a[..., :, None] + b[..., None, :]).flatten(-2).topk(4, -1)
    return distance(m(x), (best.softmax(-1)[..., None] * m.facts.weight[at]).sum((2, 3)))


def p799(m):
    x, c = draw(2, 24, 4, 5), draw(2, 6, 14, seed=1)
    turned = distance(m(x.transpose(2, 3), c), m(x, c).transpose(2, 3))
    return max(turned, permuted(lambda t: m(t, c), x, axis=3), distance(m(x, c.flip(1)), m(x, c)))


def p800(m):
    letters, sounds = torch.arange(18).reshape(2, 9), torch.arange(12).reshape(2, 6)
    whole = m(letters, sounds)
    return max(distance(m(letters, sounds[:, :4]), whole[:, :4]), distance(m(letters.flip(1), sounds), whole))


def p992(m):
    x = draw(7, 3, 3)
    return max(permuted(m, x, axis=0), batch(m, x, axis=1))


def p993(m):
    x, kin = draw(2, 7, 24), torch.tensor([[5, 5, 5, 1, 1, 8, 8]] * 2)
    gaps = torch.tensor([[min(max(s - t, -4), 4) + 4 for s in range(7)] for t in range(7)])
    bias = torch.where((kin[0, :, None] == kin[0])[..., None], m.within[gaps], m.across[gaps])
    q, k, v = (heads(t, 3) for t in m.mix_in(x).chunk(3, -1))
    return distance(m(x, kin), m.mix_out(merged(attend(q, k, v, bias=bias.permute(2, 0, 1)))))


def p994(m):
    return p800(m)


PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[1:].isdigit()}
