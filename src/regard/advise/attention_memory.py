"""In which order the ways to compute attention take and give back memory: one class per way.

Each starts with queries, keys and values held, and ends with the joined heads held, which the next layer reads; `keep` says that a
backward will follow. The backward starts with the gradient of the joined heads held, and ends with those of queries, keys and
values in its place. Sizes are those of `Work`: q is (B, T, E), k and v are (B, T, G D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regard.advise.ledger import Ledger
from regard.advise.work import Work

BLOCKS = 1 << 21  # numbers that a window holds at once beside the result (`core.local_blocks`)
CHUNK = 64  # tokens of a chunk of linear attention (`core.linear`)


class Way(Protocol):
    """A way to compute attention."""

    name: str
    why: str  # what its memory grows with

    def forward(self, held: Ledger, work: Work, keep: bool) -> None: ...

    def backward(self, held: Ledger, work: Work) -> None: ...


class Fused:
    """No score is written out. For the backward: queries, keys, values, output, and a float32 per row."""

    name = "fused"
    why = "no score is written to memory; activations grow with the length"

    def forward(self, held: Ledger, work: Work, keep: bool) -> None:
        held.take(work.unit, _rows(work))
        held.give(0 if keep else _rows(work))

    def backward(self, held: Ledger, work: Work) -> None:
        held.take(work.unit, 2 * work.shared_unit)
        held.give(work.unit, 2 * work.shared_unit, work.unit, _rows(work), work.unit)  # q, k, v, output, lse, gradient


class Window(Fused):
    """Blocks of a window: as fused, with the sums of the backward in float32."""

    name = "window"
    why = "no score is written to memory; time grows with the window, not with the length"

    def forward(self, held: Ledger, work: Work, keep: bool) -> None:
        more = _table(work) if work.way == "generate" else _blocks(work)
        held.take(more)
        super().forward(held, work, keep)
        held.give(more)

    def backward(self, held: Ledger, work: Work) -> None:
        grads = work.unit + 2 * work.shared_unit
        wide = grads * work.exact // work.itemsize
        narrow = 0 if wide == grads else grads
        held.take(wide, 2 * _blocks(work))
        held.give(2 * _blocks(work))
        held.take(narrow)
        held.give(wide if narrow else 0)
        held.give(work.unit, 2 * work.shared_unit, work.unit, _rows(work), work.unit)


class OpenForm:
    """Scores and weights are T x T in each head: two of them at once in the forward, three in the backward."""

    name = "open"
    why = "scores and weights are length x length in each head of each sample, kept in each layer for the backward"

    def forward(self, held: Ledger, work: Work, keep: bool) -> None:
        q, kv, exact, narrow = work.unit, work.shared_unit, _exact(work), _narrow(work)
        held.take(q, q, kv, narrow or exact)  # scaled, copies by head, scores
        held.give(q, *(() if keep else (q, kv)))
        if narrow:
            held.take(exact)
            held.give(narrow)
        mask = 3 * work.length**2 if work.is_causal or work.window else 0
        held.take(mask, exact)  # weights
        held.give(mask, exact)  # scores
        held.take(narrow)
        held.give(0 if keep or not narrow else exact)
        held.take(kv, q, q)  # values by head, output, joined
        held.give(q, *(() if keep else (kv, narrow or exact)))

    def backward(self, held: Ledger, work: Work) -> None:
        q, kv, exact, narrow = work.unit, work.shared_unit, _exact(work), _narrow(work)
        held.give(q)  # joined: the output layer was done with it
        held.take(q, narrow or exact, kv)  # gradient by head, of weights, of values
        held.give(kv, q, narrow)  # values, gradient by head, 16-bit weights
        if narrow:
            held.take(exact)
            held.give(narrow)
        held.take(exact)  # gradient of scores
        held.give(exact, exact)  # that of weights, weights
        if narrow:
            held.take(narrow)
            held.give(exact)
        held.take(q, kv)
        held.give(narrow or exact, q, kv, q)  # gradient of scores, copies, gradient of joined


class Linear:
    """Features in place of scores, in float32; where causal, the scores inside chunks and a sum of D x D before each chunk."""

    name = "linear"
    why = "another function: sums of D x D stand for the keys; time and memory grow with the length"

    def forward(self, held: Ledger, work: Work, keep: bool) -> None:
        sizes = _linear(work)
        most = sizes.most_kept if keep else sizes.most
        held.take(most)
        held.give(most)
        held.take(work.unit, sizes.saved if keep else 0)

    def backward(self, held: Ledger, work: Work) -> None:
        sizes = _linear(work)
        held.give(work.unit)
        held.take(4 * sizes.query)
        held.give(4 * sizes.query)
        held.take(work.unit, 2 * work.shared_unit)
        held.give(sizes.saved, work.unit)


@dataclass(frozen=True)
class _Linear:
    """Bytes of linear attention beside queries, keys and values: at most in a call, at most where a backward follows, and kept for it;
    and of the queries in float32."""

    most: int
    most_kept: int
    saved: int
    query: int


def _linear(work: Work) -> _Linear:
    D, exact = work.head_dim, work.exact // work.itemsize
    q, kv = work.unit * exact, work.shared_unit * exact
    ones_q, ones_kv = q * (D + 1) // D, kv * (D + 1) // D  # sums or values with a one behind
    copies = 0 if exact == 1 else q + 2 * kv
    if not work.is_causal:
        saved = 4 * q + 4 * kv + ones_kv + ones_q  # each feature map: input, exp, relu, sum
        most = max(copies + q + 3 * kv, q + kv + ones_kv + ones_q + q)
        return _Linear(most, saved + q - (q + kv if exact == 1 else 0), saved, q)
    chunk = min(CHUNK, work.length)
    scores, states = q * chunk // D, ones_kv * D // chunk
    saved = 4 * q + 5 * kv + ones_kv + scores + states + ones_q
    most = copies + q + kv + ones_kv + scores + states + 2 * ones_q + 2 * q
    more = states + ones_q + 2 * q + (2 * kv if copies else -q)
    return _Linear(most, saved + more, saved, q)


WAYS: dict[str, Way] = {way.name: way for way in (OpenForm(), Fused(), Window(), Linear())}


def cache_of(work: Work, way: str) -> int:
    """Bytes of the caches of all layers: keys and values, or for linear attention one float32 sum of D x (D + 1) per key head."""
    if way != "linear":
        return work.cache
    return work.layers * work.batch * work.shared * work.head_dim * (work.head_dim + 1) * work.exact


def _exact(work: Work) -> int:
    return work.scores * work.exact


def _narrow(work: Work) -> int:
    """Bytes of the scores in 16 bits; 0 where numbers have more."""
    return 0 if work.exact == work.itemsize else work.scores * work.itemsize


def _rows(work: Work) -> int:
    """Bytes of the log-sum-exp, one float32 per row."""
    return 4 * work.batch * work.heads * work.length


def _table(work: Work) -> int:
    """Bytes that a prompt takes while it fills a rolling cache: keys and values behind those of the cache, and the mask as a table for
    all heads, as booleans and as numbers twice."""
    kept = min(work.window or 0, work.length)
    joined = 2 * work.shared_unit * (work.length + kept) // work.length
    return joined + work.length * (work.length + kept) * (1 + 2 * work.itemsize)


def _blocks(work: Work) -> int:
    """Bytes that a window holds for a moment: keys and values of some blocks, their output, their mask."""
    return min(4 * BLOCKS, 3 * work.tokens * work.embed_dim) * work.exact
