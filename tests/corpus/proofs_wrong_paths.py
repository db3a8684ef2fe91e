"""Proof that the modules 553 to 601 are wrong: each entry measures the fault, in plain torch; above 1e-3 it is real."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from proofs_wrong_shapes import hidden, keep_last_two_hidden
from relations import (
    attend,
    causal,
    distance,
    draw,
    field,
    first,
    future,
    heads,
    in_chunks,
    largest_gradient,
    merged,
    permuted,
    same_tokens,
)

BROKEN = float("inf")


def finite(*tensors):
    return all(torch.isfinite(t).all() for t in tensors)


def p553(m):
    none = torch.zeros(2, 6, dtype=torch.bool)
    return 0.0 if finite(m(draw(2, 3, 24), draw(2, 6, 24), none)) else BROKEN


def p554(m):
    x = draw(2, 6, 24).requires_grad_()
    y = m(x, torch.tensor([[True] * 6, [False] * 6]))
    y.sum().backward()
    return BROKEN if finite(y) and not finite(x.grad) else 0.0


def p555(m):
    keep = torch.ones(2, 6)
    keep[:, -1] = 0
    return 0.0 if finite(m.half()(draw(2, 6, 32).half(), keep.half())) else BROKEN


def p556(m):
    keep = torch.ones(2, 6, dtype=torch.long)
    keep[0, :2] = 0
    return 0.0 if finite(m(draw(2, 6, 32), keep)) else BROKEN


def p558(m):
    return 0.0 if finite(*(m(draw(2, 16, 4, 5, seed=s)) for s in range(20))) else BROKEN


def p560(m):
    """With values that are the same for every token, attention must give them back."""
    with torch.no_grad():
        m.qkv.weight[64:], m.qkv.bias[64:] = 0, draw(32)
    return distance(m(draw(2, 9, 32)), m.proj(m.qkv.bias[64:]).expand(2, 9, -1))


def p561(m):
    """The score of tokens 0 and 1 does not depend on token 5: swap tokens that 0 and 1 never read, by hand."""
    x = draw(1, 6, 32)
    q, k, v = (heads(t, 4) for t in m.to_qkv(x).chunk(3, -1))
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    return distance(m(x), m.to_out(merged(attend(m.logit_scale.exp() * q, k, v, scale=1.0))))


def p563(m):
    x = draw(2, 6, 32)
    return 1.0 if distance(m.train()(x)[0], m.eval()(x)[0]) == 0 else 0.0


def p564(m):
    def same_seed(x, keep):
        torch.manual_seed(3)
        return m.train()(x, keep)

    return hidden(same_seed, 32, keep_last_two_hidden(torch.bool))


def p565(m):
    return distance(m(draw(2, 6, 32), True)[0], m(draw(2, 6, 32), False))


def p566(m):
    with torch.no_grad():
        y = m(draw(2, 6, 32))
    return distance(y, m(draw(2, 6, 32)))


def p567(m):
    x = draw(2, 4, 32)
    y = m(x, use_cache=True)
    m.clear_cache()
    return distance(m(x, use_cache=True), y)


def p568(m):
    x, cache = draw(2, 8, 32), {}
    return in_chunks(lambda t, _: (m(t, cache), None), m(x), x, (4, 1, 3))


def p571(m):
    x, mask = draw(2, 8, 32), torch.ones(2, 8, dtype=torch.long)
    mask[0, :3] = 0
    full = m(x, mask)[0]
    _, past = m(x[:, :6], mask[:, :6])
    return distance(m(x[:, 6:], mask, past)[0], full[:, 6:])


def p572(m):
    x = draw(2, 8, 32)
    return distance(m(x, torch.arange(8)), m(x))


def p576(m):
    """Identical tokens and a random direction: places 400 and 401 must differ."""
    t = draw(1, 1, 1, 8).expand(-1, -1, 520, -1)
    turned = m.apply_rope(t)[0, 0]
    return 1.0 if distance(turned[400], turned[401]) == 0 else 0.0


def p577(m):
    """Identical tokens: the last query weighs key 0 less than its own key."""
    with torch.no_grad():
        m.kqv.weight[64:] = 0
        m.kqv.weight[64:] += torch.eye(32)
        m.kqv.weight[:64] = 0
    m.proj = torch.nn.Identity()
    x = torch.zeros(1, 6, 32, dtype=torch.float64)
    x[0, 0, 0] = x[0, 5, 1] = 1.0
    y = m(x)[0, 5]
    return float((y[0] - y[1]).detach())  # head 0: weight of key 0 minus weight of key 5


def p578(m):
    right = torch.tensor([2.0 ** (-8 * (h + 1) / 8) for h in range(8)], dtype=torch.float64)
    return distance(m.slopes, right)


def p579(m):
    ys, xs = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    places = torch.stack((ys.flatten(), xs.flatten()), -1)
    offsets = (places[:, None] - places[None]).flatten(0, 1).tolist()
    distinct = {tuple(o) for o in offsets}
    return 1.0 if len(set(m.index.flatten().tolist())) < len(distinct) else 0.0


def windows_expected(f, x, expected):
    """1 where the field differs from the expected one. x: (1, L, C)."""
    return 1.0 if bool((field(f, x) != expected).any()) else 0.0


def blocks(rows, columns, w, s=0):
    """Which of rows x columns pixels share a window of side w after a shift of s, without wrapping."""
    r, c = torch.arange(rows), torch.arange(columns)
    r, c = (r + (w - s) % w) // w, (c + (w - s) % w) // w
    part = (r[:, None] * 100 + c[None]).flatten()
    return part[:, None] == part[None]


def raster(m, h, w, channels_last=True):
    def f(t):
        image = t.view(1, h, w, -1)
        y = m(image) if channels_last else m(image.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return y.flatten(1, 2)

    return f


def p583(m):
    r, c = torch.arange(6) % 3, torch.arange(6) % 3
    part = (r[:, None] * 10 + c[None]).flatten()
    return windows_expected(raster(m, 6, 6, False), draw(1, 36, 8), part[:, None] == part[None])


def p588(m):
    a, b = (m(draw(2, 5, 32), draw(2, 7, 32, seed=s)) for s in (1, 2))
    return 1.0 if distance(a, b) == 0 else 0.0


def p590(m):
    a, b = draw(2, 5, 24), draw(2, 5, 24, seed=1)
    return distance(m(b, a)[1], m(a, b)[0])


def p592(m):
    return 1.0 if largest_gradient(m, m(draw(2, 6, 32)), m.k_proj.weight) == 0 else 0.0


def p593(m):
    return 1.0 if largest_gradient(m, m(draw(2, 6, 32)), m.query.weight) == 0 else 0.0


def p594(m):
    y = m(draw(2, 6, 24))
    return 1.0 if largest_gradient(m, y, m.w_q) == 0 and float(m.w_k.detach().abs().max()) == 0 else 0.0


def gate(m, x):
    return m(x) / x


def away_from_zero(*shape, seed=0):
    x = draw(*shape, seed=seed)
    return x.sign() * (x.abs() + 0.3)


def p596(m):
    """Mass moved inside a channel so that its mean stays: the maximum, and with it the gate, must change."""
    x = draw(2, 16, 5, 6)
    y = x.clone()
    y[:, :, 0, 0] += 5
    y[:, :, 1, 1] -= 5
    g, h = (m(t)[:, :, 4, 5] / t[:, :, 4, 5] for t in (x, y))
    return 1.0 if distance(g, h) < 1e-9 else 0.0


def p599(m):
    """Content moved inside row 2 keeps the mean of each row, so the row gate; only columns 0 and 1 may change elsewhere."""
    x = away_from_zero(1, 12, 5, 5)
    y = x.clone()
    y[0, :, 2, 0] += 1
    y[0, :, 2, 1] -= 1
    g, h = gate(m, x)[0, :, 4, 3:], gate(m, y)[0, :, 4, 3:]
    same_row = gate(m, x)[0, :, 0, 4] - gate(m, y)[0, :, 0, 4]
    return max(distance(h, g), float(same_row.detach().abs().max()))


def p601(m):
    q = draw(2, 2, 5, 8)
    before = q.clone()
    m(q, draw(2, 2, 7, 8), draw(2, 2, 7, 8))
    return distance(q, before)


def chunked(m, width, chunks):
    x = draw(2, sum(chunks), width)
    return in_chunks(lambda t, s: m(t, s), first(m(x)), x, chunks)


def rotated(m, x):
    """Tokens carry no position: permuting them permutes the outputs, which a rotary layer must not do."""
    return 1.0 if permuted(m, x) < 1e-9 else 0.0


def toeplitz(m, t, turn):
    """Scores of identical tokens depend on the distance alone."""
    q, k = turn(t), turn(t.flip(-1))
    s = (q @ k.mT).flatten(0, -3)[0]
    return distance(s[1:, 1:], s[:-1, :-1])


def p575(m):
    cos, sin = m.rotary(6, torch.float64)
    rotate = m.forward.__globals__["rotate"]
    return toeplitz(m, draw(1, 1, 1, 16).expand(1, 1, 6, 16), lambda t: t * cos + rotate(t) * sin)


PROOFS = {
    553: p553, 554: p554, 555: p555, 556: p556,
    557: lambda m: 0.0 if finite(m(300 * draw(2, 6, 32))) else BROKEN,
    558: p558,
    559: lambda m: same_tokens(m, draw(2, 1, 32)),
    560: p560, 561: p561,
    562: lambda m: distance(m(draw(2, 6, 24)), m(draw(2, 6, 24))),
    563: p563, 564: p564, 565: p565, 566: p566, 567: p567, 568: p568,
    569: lambda m: in_chunks(lambda t, s: m(t, s, use_cache=True), m(draw(2, 8, 32))[0], draw(2, 8, 32), (4, 1, 3)),
    570: lambda m: chunked(m, 32, (4, 2, 2)),
    571: p571, 572: p572,
    573: lambda m: chunked(m, 32, (4, 1, 1, 3)),
    574: lambda m: rotated(m, draw(2, 7, 32)),
    575: p575, 576: p576, 577: p577, 578: p578, 579: p579,
    580: lambda m: windows_expected(raster(m, 4, 6), draw(1, 24, 8), blocks(4, 6, 2)),
    581: lambda m: windows_expected(m, draw(1, 12, 16), blocks(1, 12, 4, 2)),
    582: lambda m: 1.0 if bool((field(raster(m, 6, 7), draw(1, 42, 8)) & ~blocks(6, 7, 4, 2)).any()) else 0.0,
    583: p583,
    584: lambda m: windows_expected(m, draw(1, 10, 32), causal(10) & torch.ones(10, 10, dtype=torch.bool).triu(-2)),
    585: lambda m: future(m, draw(2, 9, 32)),
    586: lambda m: windows_expected(m, draw(1, 10, 32), causal(10)),
    587: lambda m: 1.0 if float(m(draw(2, 7, 16), draw(2, 6, 16), draw(2, 6, 16))[:, -1].detach().abs().max()) == 0 else 0.0,
    588: p588,
    589: lambda m: 1.0 if bool((field(m, draw(1, 6, 32)) == torch.eye(6, dtype=torch.bool)).all()) else 0.0,
    590: p590,
    591: lambda m: 1.0 if len(list(m.parameters())) == 2 else 0.0,
    592: p592, 593: p593, 594: p594,
    595: lambda m: distance(gate(m, away_from_zero(2, 16, 5, 6))[..., :1, :1].expand(-1, -1, 5, 6), gate(m, away_from_zero(2, 16, 5, 6))),
    596: p596,
    597: lambda m: float(gate(m, away_from_zero(2, 16, 5, 6) * 4).detach().min().neg()),
    598: lambda m: distance(gate(m, away_from_zero(2, 8, 6, 7))[:, :1].expand(-1, 8, -1, -1), gate(m, away_from_zero(2, 8, 6, 7))),
    599: p599,
    600: lambda m: 1.0 if distance(gate(m, away_from_zero(2, 16, 4, 5)), torch.ones(2, 16, 4, 5)) < 1e-9 else 0.0,
    601: p601,
}  # fmt: skip
