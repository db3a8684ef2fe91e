"""What to choose for a work, and why: heads, dropout, how to treat the length, precision, caching, quantisation. Each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regard.advise.parameters import parameters_of
from regard.advise.work import Work

NARROW, WIDE = 32, 128  # channels of a head outside of which there should be a reason


@dataclass(frozen=True)
class Advice:
    """One choice."""

    about: str
    choose: str
    why: str
    source: str


def advise(work: Work, fitting: list[str], memory: int | None) -> list[Advice]:
    """The advice for a work.

    Args:
        fitting: The ways to compute attention that fit into the memory.
        memory: Bytes; None: not said.
    """
    parts = (_heads, _groups, _dropout, _length, _precision, _cache)
    made = [advice for part in parts for advice in part(work)]
    return made if memory is None else [*made, *_too_much(work, fitting)]


def heads_for(embed_dim: int) -> list[int]:
    """Numbers of heads that give 64 to 128 channels each; where none divides, the nearest that does.

    >>> heads_for(512), heads_for(768)
    ([8, 4], [12, 8, 6])
    """
    dividing = [n for n in range(embed_dim, 0, -1) if embed_dim % n == 0]
    usual = [n for n in dividing if 64 <= embed_dim // n <= 128]
    return usual or [min(dividing, key=lambda n: abs(embed_dim // n - 64))]


def _heads(work: Work) -> Iterator[Advice]:
    D, E = work.head_dim, work.embed_dim
    usual = " or ".join(map(str, heads_for(E)))
    source = "Vaswani 2017, arXiv:1706.03762, table 3; Bhojanapalli 2020, arXiv:2002.07028"
    if D < NARROW:
        why = f"{work.heads} heads of {D} channels: scores of so few channels have low rank, and heads degenerate"
        yield Advice("heads", f"{usual} heads", why, source)
    elif D > WIDE:
        why = f"{work.heads} heads of {D} channels: more heads look at more places for the same operations; 64 to 128 is usual"
        yield Advice("heads", f"{usual} heads", why, source)
    else:
        why = f"{D} channels per head; 64 to 128 is usual ({usual} heads at this width), below {NARROW} channels heads degenerate"
        yield Advice("heads", f"{work.heads} heads", why, source)


def _groups(work: Work) -> Iterator[Advice]:
    if work.way == "generate" and work.shared == work.heads and work.heads >= 8:
        less = work.heads // (work.heads // 4)
        why = f"the cache becomes {less} times smaller, and decoding reads it at every token; quality stays near that of all heads"
        yield Advice("key heads", f"{work.heads // 4} key heads", why, "Ainslie 2023, arXiv:2305.13245")


def _dropout(work: Work) -> Iterator[Advice]:
    if work.way != "train":
        return
    why = "0.1 where the data are seen many times, 0 where once; dropout on the weights takes attention off torch's fused CPU kernel"
    yield Advice("dropout", "0 to 0.1, on the branches", why, "Vaswani 2017, arXiv:1706.03762, section 5.4")


def _length(work: Work) -> Iterator[Advice]:
    T = work.length
    if work.window is not None:
        reach = work.layers * (work.window - 1)
        why = f"after {work.layers} layers a token has seen up to {reach:,} tokens to a side; the cache holds {work.window} tokens"
        yield Advice("length", f"a window of {work.window}", why, "Beltagy 2020, arXiv:2004.05150")
        return
    score_bytes = work.scores * work.exact
    why = f"the open form writes {score_bytes / 1e6:,.0f} MB of scores per layer; fused is exact and writes none"
    yield Advice("length", "fused attention", why, "Rabe 2021, arXiv:2112.05682; Dao 2022, arXiv:2205.14135")
    if T >= 4096:
        why = f"at {T:,} tokens the products with keys take {T / (2 * work.embed_dim + work.hidden):.1f} times the operations of the layers"
        yield Advice("length", "a window with a few global tokens", why, "Beltagy 2020, arXiv:2004.05150")
    if T >= 16_384:
        why = "memory and time linear in the length; another function, to be trained with, weaker at looking up single tokens"
        yield Advice(
            "length", "linear attention, where a window is too short", why, "Katharopoulos 2020, arXiv:2006.16236"
        )


def _precision(work: Work) -> Iterator[Advice]:
    size = parameters_of(work).total
    if work.way == "train" and work.itemsize == 2:
        why = (
            f"sums of small updates vanish in 16 bits; float32 weights, gradients and AdamW, and the 16-bit copy, take {10 * size / 1e6:,.0f} MB more "
            "than this plan"
        )
        how = (
            "autocast to bf16, weights and optimiser in fp32"
            if work.dtype.startswith("b")
            else "autocast, and a loss scaler"
        )
        yield Advice("precision", how, why, "Micikevicius 2017, arXiv:1710.03740; Kalamkar 2019, arXiv:1905.12322")
    elif work.itemsize == 4:
        why = "half the activations; bf16 has the range of float32 and needs no loss scaling"
        yield Advice("precision", "bf16 where the device multiplies it", why, "Kalamkar 2019, arXiv:1905.12322")
    if work.way != "train":
        why = f"weights of {size * work.itemsize / 1e6:,.0f} MB become {size / 1e6:,.0f} MB; outlier channels stay in 16 bits"
        yield Advice("quantisation", "8-bit weights", why, "Dettmers 2022, arXiv:2208.07339")


def _cache(work: Work) -> Iterator[Advice]:
    if work.way != "generate":
        return
    each = work.cache // work.length / 1e3
    why = f"a step then costs one token and not all of them; {each:,.1f} kB per position of the batch, preallocated"
    yield Advice("caching", "a key-value cache", why, "Pope 2022, arXiv:2211.05102")
    if work.cache > parameters_of(work).total * work.itemsize:
        why = f"the cache ({work.cache / 1e6:,.0f} MB) is larger than the weights; 8 bits halve it, with keys scaled by channel"
        yield Advice("quantisation", "an 8-bit cache", why, "Liu 2024, arXiv:2402.02750")


def _too_much(work: Work, fitting: list[str]) -> Iterator[Advice]:
    exact = [name for name in fitting if name != "linear"]
    if exact or work.way != "train":
        return
    why = f"activations are made again in the backward: a third more operations, and one layer of {work.layers} held at a time"
    yield Advice("memory", "checkpointing by layer", why, "Chen 2016, arXiv:1604.06174")
    why = "the same gradient from several small batches; gradients and weights stay, activations shrink with the batch"
    yield Advice("memory", "a smaller batch, gradients accumulated", why, "Chen 2016, arXiv:1604.06174")
