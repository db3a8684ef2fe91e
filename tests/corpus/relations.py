"""The relations that prove a corpus module wrong or right, in plain torch and without the checker. Each returns a distance.

Axes: B items, L tokens, C channels. A distance is the largest difference, relative to the largest value compared.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def first(y: object) -> Tensor:
    """The main output, where a tuple or dict is returned."""
    while not isinstance(y, Tensor):
        y = next(iter(y.values())) if isinstance(y, dict) else y[0]
    return y


def distance(a: Tensor, b: Tensor) -> float:
    a, b = a.detach(), b.detach()
    if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
        return float("inf")
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-12))


def batch(f, x: Tensor, axis: int = 0) -> float:
    """Item 0 while the other items change."""
    y = x.clone()
    y.narrow(axis, 1, x.shape[axis] - 1).mul_(-2)
    return distance(first(f(y)).select(axis, 0), first(f(x)).select(axis, 0))


def permuted(f, x: Tensor, axis: int = 1) -> float:
    """Tokens permuted before, or outputs permuted after."""
    order = torch.randperm(x.shape[axis], generator=torch.Generator().manual_seed(3))
    return distance(first(f(x.index_select(axis, order))), first(f(x)).index_select(axis, order))


def field(f, x: Tensor, axis: int = 1) -> Tensor:
    """(L, L) bool: does output t of item 0 depend on token s?"""
    x = x.clone().requires_grad_()
    y = first(f(x))
    rows = []
    for t in range(y.shape[axis]):
        (g,) = torch.autograd.grad(y.select(axis, t).square().sum(), x, retain_graph=True)
        rows.append(g.abs().movedim(axis, 0).flatten(1).amax(1) > 1e-12)
    return torch.stack(rows)


def future(f, x: Tensor, axis: int = 1) -> float:
    """How far outputs before the last token change with the last token, and so on for each token: the worst."""
    worst = 0.0
    for t in range(1, x.shape[axis]):
        y = x.clone()
        y.select(axis, t).mul_(-3)
        a, b = first(f(x)).narrow(axis, 0, t), first(f(y)).narrow(axis, 0, t)
        worst = max(worst, distance(b, a))
    return worst


def hidden_content(f, x: Tensor, hidden: slice, real: slice, axis: int = 1) -> float:
    """Outputs at real places while what is hidden changes."""
    y = x.clone()
    part = y.narrow(axis, hidden.start, hidden.stop - hidden.start)
    part.copy_(draw(*part.shape, seed=77))
    a, b = first(f(x)), first(f(y))
    return distance(
        b.narrow(axis, real.start, real.stop - real.start), a.narrow(axis, real.start, real.stop - real.start)
    )


def same_tokens(f, one: Tensor, counts=(3, 8)) -> float:
    """n copies of one token: weights that sum to 1 over the keys do not count them. `one`: (B, 1, C)."""
    a, b = (first(f(one.repeat(1, n, 1))) for n in counts)
    return distance(b[:, :1] if b.dim() == 3 else b, a[:, :1] if a.dim() == 3 else a)


def twice(f, x: Tensor) -> float:
    """Each token once, or each token twice."""
    return distance(first(f(x.repeat_interleave(2, 1)))[:, ::2], first(f(x)))


def in_chunks(step, whole: Tensor, x: Tensor, chunks) -> float:
    """`step(part, state) -> (out, state)` over chunks, against the whole."""
    outs, state, at = [], None, 0
    for n in chunks:
        out, state = step(x[:, at : at + n], state)
        outs.append(out)
        at += n
    return distance(torch.cat(outs, 1), whole)


def heads(t: Tensor, h: int) -> Tensor:
    """(B, L, h * d) -> (B, h, L, d)."""
    return t.reshape(*t.shape[:2], h, -1).transpose(1, 2)


def merged(t: Tensor) -> Tensor:
    """(B, h, L, d) -> (B, L, h * d)."""
    return t.transpose(1, 2).flatten(2)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    keep: Tensor | None = None,
    bias: Tensor | float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """The open formula on (..., L, d); keep is True where a key may be seen."""
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)) @ v


def causal(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def largest_gradient(m: nn.Module, y: Tensor, parameter: Tensor) -> float:
    """Gradient of a random projection of y at a parameter; 0 where there is none."""
    m.zero_grad()
    (y * draw(*y.shape, seed=9)).sum().backward()
    return 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
