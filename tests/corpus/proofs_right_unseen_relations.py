"""Proof that the modules 773 to 784 are right: distance to an open formula or to what they document; below 1e-6."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from relations import distance, draw, field, future, permuted, same_tokens


def _visible(m):
    """What is hidden may as well be left out."""
    state, entries, keep = draw(2, 20), draw(2, 6, 20, seed=1), torch.ones(2, 6, dtype=torch.float64)
    keep[:, 4:] = 0
    return distance(m(state, entries, keep), m(state, entries[:, :4]))


p773 = p774 = _visible


def _sees(m, before: int, after: int) -> float:
    i = torch.arange(9)
    asked = (i <= i[:, None] + after) & (i >= i[:, None] - before)
    return float((field(m, draw(2, 9, 24)) != asked).sum())


def p775(m):
    return _sees(m, 2, 0)


def p776(m):
    return _sees(m, 3, 3)


def _one_weight(m) -> float:
    x = draw(2, 16, 5, 7).abs() + 0.5
    gate = m.weigh(x) / x
    return distance(gate, gate.mean((2, 3), keepdim=True).expand_as(gate))


def p777(m):
    x = draw(2, 16, 5, 7)
    return max(_one_weight(m), distance(m(x), F.relu(x + m.weigh(m.body(x)))))


def p778(m):
    x = draw(2, 16, 5, 7)
    y = m.norm(m.body(x))
    length = y.square().mean(1).sqrt()
    return max(_one_weight(m), distance(length, torch.ones_like(length)), distance(m(x), F.relu(x + m.weigh(y))))


def p779(m):
    return permuted(m, draw(2, 20, 6), axis=2)


def p780(m):
    x = draw(2, 20, 6)
    q, k, v = m.qkv(m.norm(x)).view(2, 3, 2, 10, 6).unbind(1)
    weights = (torch.einsum("bhdt,bhds->bhts", q, k) / 10**0.5).softmax(-1)
    y = torch.einsum("bhts,bhds->bhdt", weights, v).reshape(2, 20, 6)
    return distance(m(x), x + torch.einsum("oc,bct->bot", m.out.weight, y) + m.out.bias[:, None])


def p781(m):
    return max(future(m, draw(2, 7, 18)), same_tokens(m, draw(2, 1, 18)))


def p782(m):
    x = draw(2, 1, 16).repeat(1, 8, 1)
    y = m(x) - m.out.bias
    return distance(y, y[:, -1:] * torch.arange(1, 9, dtype=torch.float64)[:, None] / 8)


def _trimmed(m):
    x, count = draw(2, 6, 24), torch.tensor([4, 4])
    return distance(m(x, count), m(x[:, :4], count))


p783 = p784 = _trimmed

PROOFS = {int(name[1:]): f for name, f in list(globals().items()) if name[0] == "p" and name[1:].isdigit()}
