"""`regard.plan`: parameters, operations, and the peak of memory for each way to compute attention; what fits, and what to choose."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from regard.advise.advice import Advice, advise
from regard.advise.attention_memory import WAYS
from regard.advise.parameters import flops_of, parameters_of
from regard.advise.ranks import Ranks, of_ranks
from regard.advise.step import walk
from regard.advise.work import Work, bytes_of

MOST = 1 << 20  # samples of a batch; more than anyone asks for


@dataclass(frozen=True)
class Way:
    """One way to compute attention.

    Attributes:
        name, why: Which, and what its memory grows with.
        flops: Operations of the work.
        parts: Bytes by kind at the peak: weights, optimizer, cache, gradients, activations.
        peak: Their sum.
        fits: Whether the peak is within the memory; None where none was given.
        largest_batch: Samples that fit; None where no memory was given.
        per_rank: What one of several ranks holds and sends; None for one.
    """

    name: str
    why: str
    flops: int
    parts: dict[str, int]
    peak: int
    fits: bool | None
    largest_batch: int | None
    per_rank: Ranks | None


@dataclass(frozen=True)
class Plan:
    """What `plan` found; `str()` is what the command prints.

    Attributes:
        work: The sizes.
        memory: Bytes; None where not said.
        parameters: How many.
        cache: Bytes of the key-value caches of all layers, for `length` tokens.
        ways: One per way to compute attention.
        advice: What to choose, with reasons and sources.
    """

    work: Work
    memory: int | None
    parameters: int
    cache: int
    ways: list[Way]
    advice: list[Advice]

    def way(self, name: str) -> Way:
        """The way of that name: "open", "fused", "window" or "linear"."""
        return next(way for way in self.ways if way.name == name)

    def as_dict(self) -> dict:
        """Plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        from regard.advise.plan_text import text

        return text(self)


def plan(
    embed_dim: int,
    heads: int,
    *,
    kv_heads: int | None = None,
    batch: int = 1,
    length: int = 512,
    layers: int = 1,
    feed_forward: int | None = None,
    vocab: int = 0,
    dtype: str = "fp32",
    memory: str | int | None = None,
    train: bool = False,
    generate: bool = False,
    causal: bool = False,
    window: int | None = None,
    ranks: int = 1,
) -> Plan:
    """Say what a Transformer takes before it is made: nothing is allocated, and torch is not needed.

    The peak is that of `regard.nn` layers on the CPU allocator; `regard bench plan` measures it beside the prediction. A device adds
    what its driver and its allocator keep.

    Args:
        embed_dim, heads, kv_heads, batch, length, layers, feed_forward, vocab, dtype, causal, window, ranks: As in `Work`.
        memory: What the device has, as "8GB" or bytes.
        train: A step with AdamW; otherwise one call without gradients.
        generate: A prompt of `length` tokens that fills key-value caches, causal.

    Raises:
        PlanError: Heads that do not divide, a negative size, an unknown dtype, a memory that is no size, or train with generate.
    """
    from regard.core.errors import PlanError

    if train and generate:
        raise PlanError("a plan is of a training step or of generating; ask for one, then for the other")
    way = "train" if train else "generate" if generate else "forward"
    work = Work(
        embed_dim, heads, kv_heads, batch, length, layers, feed_forward, vocab, dtype, way, causal, window, ranks
    )
    limit = None if memory is None else bytes_of(memory)
    names = [name for name in WAYS if name != ("window" if window is None else "fused")]
    ways = [_way(work, name, limit) for name in names]
    fitting = [each.name for each in ways if each.fits]
    return Plan(work, limit, parameters_of(work).total, work.cache, ways, advise(work, fitting, limit))


def _way(work: Work, name: str, limit: int | None) -> Way:
    held = walk(work, name)
    shared = of_ranks(work, name) if work.ranks > 1 else None
    peak = held.peak if shared is None else shared.peak
    fits = None if limit is None else peak <= limit
    most = None if limit is None else largest_batch(work, name, limit)
    return Way(name, WAYS[name].why, flops_of(work, name), held.at_peak, held.peak, fits, most, shared)


def largest_batch(work: Work, name: str, limit: int) -> int:
    """How many samples fit into so many bytes on each rank; 0 if not even one."""

    def fits(batch: int) -> bool:
        asked = replace(work, batch=batch)
        return (of_ranks(asked, name).peak if work.ranks > 1 else walk(asked, name).peak) <= limit

    if not fits(1):
        return 0
    low, high = 1, 2
    while high < MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
