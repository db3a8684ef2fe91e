"""The order in which one call, one training step, or the reading of a prompt takes memory and gives it back.

Nothing here is fitted: each line is a tensor that the layers of `regard.nn` make, in the order in which they make it. A tensor is
given back when the last reference to it goes, which for an argument is the end of the call that it was given to.
"""

from __future__ import annotations

from regard.advise.attention_memory import WAYS, Way, cache_of
from regard.advise.ledger import Ledger
from regard.advise.parameters import Parameters, parameters_of
from regard.advise.work import Work


def walk(work: Work, way: str) -> Ledger:
    """Go through the work once; the ledger knows the peak and its parts."""
    held, size, attention = Ledger(), parameters_of(work), WAYS[way]
    held.take(size.total * work.itemsize, kind="weights")
    if work.way == "train":
        held.take(2 * size.total * work.itemsize, kind="optimizer")
        _train(held, work, attention, size)
        return held
    held.take(cache_of(work, way) if work.way == "generate" else 0, kind="cache")
    held.take(work.unit)
    for _ in range(work.layers):
        _mix(held, work, attention, keep=False)
        _feed_forward(held, work, keep=False)
        held.give(work.unit)  # what came in: the loop over layers held it
    held.take(work.unit)  # the last norm
    held.give(work.unit)
    held.take(_logits(work))
    return held


def _mix(held: Ledger, work: Work, attention: Way, *, keep: bool) -> None:
    """x + attention(norm(x)): x is held before, the sum beside it after."""
    projected = (work.unit, 2 * work.shared_unit)
    held.take(work.unit, *projected, _moments(work) if keep else 0)
    attention.forward(held, work, keep)
    held.take(work.unit)
    if keep and attention.name in ("open", "linear"):
        held.give(*projected)  # copies or features are what the backward needs
    if not keep:
        held.give(work.unit, *projected, work.unit)  # norm, projections, joined heads
    held.take(work.unit)
    held.give(work.unit)


def _feed_forward(held: Ledger, work: Work, *, keep: bool) -> None:
    """x + down(gelu(up(norm(x)))): the sum takes the place of x where no backward follows."""
    held.take(work.unit, work.hidden_unit, work.hidden_unit, _moments(work) if keep else 0)
    held.give(0 if keep else work.hidden_unit)
    held.take(work.unit)
    held.give(*(() if keep else (work.hidden_unit, work.unit)))
    held.take(work.unit)
    held.give(work.unit, *(() if keep else (work.unit,)))


def _train(held: Ledger, work: Work, attention: Way, size: Parameters) -> None:
    held.take(work.unit)
    for _ in range(work.layers):
        _mix(held, work, attention, keep=True)
        _feed_forward(held, work, keep=True)
    held.take(work.unit, _moments(work))  # the last norm
    _loss(held, work)  # leaves the gradient of the last norm's output
    held.take(work.unit)
    held.give(work.unit, _moments(work), work.unit)  # gradient of the norm's output, moments, its input
    for _ in range(work.layers):
        _feed_forward_back(held, work, size)
        _mix_back(held, work, attention, size)
    held.give(work.unit, *(() if work.vocab else (work.unit, work.unit)))
    held.take(size.words * work.itemsize, kind="gradients")
    held.take(2 * size.largest * work.itemsize)  # AdamW: two temporaries of a parameter


def _loss(held: Ledger, work: Work) -> None:
    """Cross-entropy over the words, in float32; without words, the caller holds the output and a gradient from elsewhere."""
    if not work.vocab:
        held.take(work.unit, work.unit)
        return
    logits, exact = _logits(work), work.tokens * work.vocab * work.exact
    held.take(logits)
    if exact != logits:
        held.take(exact)
        held.give(logits)
    held.take(exact)  # log-softmax
    held.give(exact)  # logits
    held.take(exact, exact)  # gradients of log-softmax and of logits
    held.give(exact, exact)
    if exact != logits:
        held.take(logits)
        held.give(exact)
    held.take(work.vocab * work.embed_dim * work.itemsize, kind="gradients")
    held.take(work.unit)
    held.give(logits, work.unit)


def _feed_forward_back(held: Ledger, work: Work, size: Parameters) -> None:
    half = size.feed_forward // 2 * work.itemsize
    held.take(work.hidden_unit)
    held.take(half, kind="gradients")
    held.give(work.hidden_unit)  # after gelu
    held.take(work.hidden_unit)
    held.give(work.hidden_unit, work.hidden_unit)  # its gradient, before gelu
    held.take(work.unit)
    held.take(half, kind="gradients")
    held.give(work.hidden_unit, work.unit)  # gradient before gelu, norm
    held.take(work.unit)
    held.give(work.unit, work.unit, work.unit, _moments(work))  # gradient of the norm, the sum, the input


def _mix_back(held: Ledger, work: Work, attention: Way, size: Parameters) -> None:
    held.take(work.unit)
    held.take(size.output * work.itemsize, kind="gradients")
    attention.backward(held, work)
    held.take(work.unit)
    held.give(work.unit, 2 * work.shared_unit, work.unit)  # gradients of projections, norm
    held.take((size.attention - size.output) * work.itemsize, kind="gradients")
    held.take(work.unit)
    held.give(work.unit, work.unit, work.unit, _moments(work))


def _moments(work: Work) -> int:
    """Mean and reciprocal deviation of each token, which a norm keeps."""
    return 2 * work.tokens * work.exact


def _logits(work: Work) -> int:
    return work.tokens * work.vocab * work.itemsize
