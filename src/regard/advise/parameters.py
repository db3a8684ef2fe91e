"""How many parameters the blocks of `Work` have, and how many operations a call or a training step takes."""

from __future__ import annotations

from dataclasses import dataclass

from regard.advise.work import Work
from regard.core.cost import Shape, fused


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters: of the projections of one layer (`output` is the last of them), its feed-forward and norms; of one
    table of words; of all; and of the largest single tensor."""

    attention: int
    output: int
    feed_forward: int
    norms: int
    words: int
    total: int
    largest: int


def parameters_of(work: Work) -> Parameters:
    """Count them."""
    E, narrow = work.embed_dim, work.shared * work.head_dim
    output = E * E + E
    attention = output + E * E + E + 2 * (E * narrow + narrow)
    feed_forward = 2 * E * work.hidden + work.hidden + E
    words = work.vocab * E
    total = work.layers * (attention + feed_forward + 4 * E) + 2 * E + 2 * words
    return Parameters(attention, output, feed_forward, 4 * E, words, total, max(words, E * work.hidden, E * E))


def pairs_of(work: Work) -> int:
    """Query-key pairs of one head of one sample that the mask leaves."""
    T = work.length
    if work.window is None:
        return T * (T + 1) // 2 if work.is_causal else T * T
    seen = min(work.window, T)
    before = T * seen - seen * (seen - 1) // 2  # the first `seen - 1` tokens have fewer before them
    return before if work.is_causal else 2 * before - T  # a window to each side, the token itself once


def flops_of(work: Work, way: str) -> int:
    """Operations of one call, or of one step with the backward (twice the products of the forward; a fused kernel 2.5 times)."""
    size = parameters_of(work)
    train = work.way == "train"
    dense = 2 * work.tokens * (work.layers * (size.attention + size.feed_forward) + size.words)
    return dense * (3 if train else 1) + work.layers * _attention(work, way, train)


def _attention(work: Work, way: str, train: bool) -> int:
    if way == "linear":  # products of D x D for each token: into the sum, and out of it
        forward = 4 * work.tokens * work.heads * work.head_dim * (work.head_dim + 1)
        return forward * (3 if train else 1)
    pairs = work.length**2 if way == "open" else pairs_of(work)
    shape = Shape(work.batch, work.heads, work.length, work.length, work.head_dim, work.shared, pairs=pairs)
    if way != "open" or not train:
        return fused(shape, itemsize=work.itemsize, backward=train).flops
    return 3 * fused(shape, itemsize=work.itemsize).flops
