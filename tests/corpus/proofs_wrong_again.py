"""Proof that the modules 602 to 632 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
from proofs_wrong_paths import BROKEN, away_from_zero, blocks, chunked, finite, gate, raster, rotated, windows_expected
from proofs_wrong_shapes import hidden, hidden_memory, keep_last_two_hidden
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
    same_tokens,
)


def p605(m):
    pad = torch.zeros(2, 6, dtype=torch.bool)
    pad[0, 4:] = True  # item 1 hides nothing
    x = draw(6, 2, 24)
    return distance(m(x, pad)[:, 1], m(x)[:, 1])


def p607(m):
    x, cache = draw(2, 8, 32), []
    return in_chunks(lambda t, _: (m(t, cache), None), m(x), x, (4, 1, 3))


def p609(m):
    x = draw(2, 4, 32)
    y = m(x)
    m.reset_cache()
    return distance(m(x), y)


def p613(m):
    with torch.no_grad():
        m.gamma.fill_(1.0)
    x = draw(2, 16, 4, 5)
    q, k, v = (f(x).flatten(2).mT for f in (m.query_conv, m.key_conv, m.value_conv))
    return distance(m(x), attend(q, k, v, scale=1.0).mT.reshape_as(x) + x)


def p618(m):
    g = gate(m, away_from_zero(2, 16, 5, 6))
    return distance(g[:, :, :1].expand_as(g), g)


def p622(m):
    """The order of the context tokens cannot matter."""
    text, image = draw(2, 6, 24), draw(2, 6, 24, seed=1)
    return distance(m(text, image[:, [3, 1, 5, 0, 2, 4]]), m(text, image))


def p624(m):
    x = draw(2, 3, 24).requires_grad_()
    y = m(x, draw(2, 6, 24), torch.tensor([[True] * 6, [False] * 6]))
    y.sum().backward()
    return BROKEN if finite(y) and not finite(x.grad) else 0.0


def p630(m):
    x = draw(2, 6, 32)
    before = x.clone()
    with torch.no_grad():
        m(x)
    return distance(x, before)


def p632(m):
    x = draw(2, 6, 32)
    q, k, v = (heads(t, 4) for t in m.qkv(x).chunk(3, -1))
    return distance(m(x), m.proj(merged(attend(m.q_norm(q), m.k_norm(k), v))))


PROOFS = {
    602: lambda m: hidden(m, 32, keep_last_two_hidden(torch.long)),
    603: lambda m: hidden(m.train(), 32, ~keep_last_two_hidden(torch.bool)),
    604: lambda m: hidden_memory(m, (2, 4, 20), (2, 6, 20), keep_last_two_hidden(torch.bool)),
    605: p605,
    606: lambda m: future(m, draw(2, 6, 24)),
    607: p607,
    608: lambda m: chunked(m, 32, (4, 1, 3)),
    609: p609,
    612: lambda m: batch(m, draw(6, 2, 24), axis=1),
    613: p613,
    614: lambda m: same_tokens(lambda x: m(x.mT).mT, draw(2, 1, 24)),
    615: lambda m: windows_expected(m, draw(1, 9, 16), causal(9) & torch.ones(9, 9, dtype=torch.bool).triu(-2)),
    616: lambda m: batch(m, draw(2, 12, 16)),
    617: lambda m: 1.0 if bool((field(raster(m, 8, 8, False), draw(1, 64, 8)) & ~blocks(8, 8, 4, 3)).any()) else 0.0,
    618: p618,
    620: lambda m: float(gate(m, away_from_zero(2, 16, 5, 6) * 1000).detach().max() - 1),
    622: p622,
    624: p624,
    627: lambda m: rotated(lambda x: m(x.transpose(0, 1)).transpose(0, 1), draw(2, 7, 32)),
    630: p630,
    632: p632,
}  # fmt: skip
