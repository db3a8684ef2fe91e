"""Linear, random-feature and hashed attention: against the forms of tutorials and of released packages, and against exact attention.

Exact attention computes another function, so those lines compare times alone: their outputs are not held side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from regard.bench.line import Line, Pair, compare
from regard.bench.timing import Step, forward, normal, one_thread, training
from regard.core import linear
from regard.core.attention import attention
from regard.core.favor import draw_directions, random_features
from regard.core.linear import elementwise, elu_plus_one
from regard.core.lsh import draw_rotations, hashed_attention
from regard.core.mask.band import causal

HEADS, WIDTH, FEATURES, BUCKET = 4, 64, 256, 64
ROUNDS = 7
Made = Callable[[int], Callable[..., Tensor]]  # tokens -> a function of query, key and value


def lines(*, quick: bool = False) -> list[Line]:
    """Every line, 4 heads of 64: causal linear attention at 1,024 tokens, and all at 4,096; `quick`: 128 and 256."""
    short, long = (128, 256) if quick else (1024, 4096)
    ways = {"forward": forward, "forward + backward": training}
    made = []
    for name, step in ways.items():
        what = f"causal linear attention, {short:,} tokens, {name}"
        made.append(compare(what, "cumulative sums (tutorials)", partial(_tutorial, step, short), 25.0, rounds=5))
    for name, ours, exact, targets in (
        ("linear attention", linear_full, exact_full, (8.0, 6.0)),
        ("causal linear attention", linear_causal, exact_causal, (3.0, 3.0)),
        (f"Performer, {FEATURES} features", favor_full, exact_full, (None, None)),
        (f"causal Performer, {FEATURES} features", favor_causal, exact_causal, (None, None)),
        ("Reformer, 1 hash", partial(hashed, rounds=1), exact_full, (None, None)),
        ("Reformer, 4 hashes", partial(hashed, rounds=4), exact_full, (None, None)),
    ):
        for (way, step), target in zip(ways.items(), targets):
            what = f"{name}, {long:,} tokens, time alone, {way}"
            make = partial(_times, step, long, ours, exact)
            made.append(compare(what, "exact attention", make, target, rounds=5))
    for way, step in ways.items():
        what = f"Performer, {FEATURES} features, {long:,} tokens, time alone, {way}"
        make = partial(_times, step, long, favor_full, _performer_package)
        made.append(compare(what, "performer-pytorch", make, None, needs=("performer_pytorch",), rounds=5))
        what = f"Reformer, 4 hashes, {long:,} tokens, time alone, {way}"
        make = partial(_times, step, long, partial(hashed, rounds=4), _reformer_package)
        made.append(compare(what, "reformer-pytorch", make, None, needs=("reformer_pytorch",), rounds=5))
    return made


def rows(*, rounds: int = ROUNDS, quick: bool = False) -> list[dict]:
    """Measure every line on one thread; see `timing.row` for what a row holds."""
    with one_thread():
        return [made for line in lines(quick=quick) for made in line.rows(rounds)]


def linear_full(tokens: int) -> Callable[..., Tensor]:
    """Linear attention, elu + 1."""
    return lambda query, key, value: linear.full(query, key, value, elementwise(elu_plus_one))


def linear_causal(tokens: int) -> Callable[..., Tensor]:
    """The same, causal, in chunks."""
    return lambda query, key, value: linear.causal(query, key, value, elementwise(elu_plus_one))[0]


def favor_full(tokens: int) -> Callable[..., Tensor]:
    """Performer with 256 random features."""
    return lambda query, key, value: linear.full(query, key, value, _random())


def favor_causal(tokens: int) -> Callable[..., Tensor]:
    """The same, causal."""
    return lambda query, key, value: linear.causal(query, key, value, _random(), chunk=128)[0]


def hashed(tokens: int, *, rounds: int) -> Callable[..., Tensor]:
    """Reformer: buckets of 64 tokens on average; the query is the key."""
    buckets = max(2, tokens // BUCKET)
    rotations = draw_rotations(rounds, WIDTH, buckets, generator=torch.Generator().manual_seed(0))
    return lambda query, key, value: hashed_attention(query, value, rotations, bucket_size=BUCKET) + 0.0 * key[..., :1]


def exact_full(tokens: int) -> Callable[..., Tensor]:
    """Softmax attention."""
    return attention


def exact_causal(tokens: int) -> Callable[..., Tensor]:
    """Softmax attention, causal."""
    return lambda *x: attention(*x, mask=causal())


def inputs(tokens: int) -> list[Tensor]:
    """Query, key and value of 4 heads of 64."""
    return [normal(1, HEADS, tokens, WIDTH, seed=seed) for seed in range(3)]


def by_cumulative_sums(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal linear attention as tutorials write it: the sum of the outer products k v, once per position."""
    query, key = elu_plus_one(query), elu_plus_one(key)
    states = torch.einsum("bhtf,bhtd->bhtfd", key, value).cumsum(dim=2)  # (B, H, T, F, Dv)
    total = (query * key.cumsum(dim=2)).sum(dim=-1, keepdim=True)
    return torch.einsum("bhtf,bhtfd->bhtd", query, states) / total


def _random() -> linear.FeatureMap:
    directions = draw_directions(FEATURES, WIDTH, generator=torch.Generator().manual_seed(0))
    return partial(random_features, directions=directions, scale=WIDTH**-0.5)


def _tutorial(step: Callable[..., Step], tokens: int) -> Pair:
    tensors = inputs(tokens)
    return step(linear_causal(tokens), *tensors), step(by_cumulative_sums, *tensors)


def _times(step: Callable[..., Step], tokens: int, ours: Made, peer: Made) -> Pair:
    tensors = inputs(tokens)
    return _silent(step(ours(tokens), *tensors)), _silent(step(peer(tokens), *tensors))


def _silent(step: Step) -> Step:
    """The step without its outputs, which are those of another function."""

    def run() -> list[Tensor]:
        step()
        return []

    return run


def _performer_package(tokens: int) -> Callable[..., Tensor]:
    from performer_pytorch import FastAttention  # pyright: ignore[reportMissingImports]

    return FastAttention(WIDTH, nb_features=FEATURES)


def _reformer_package(tokens: int) -> Callable[..., Tensor]:
    from reformer_pytorch import LSHAttention  # pyright: ignore[reportMissingImports]

    layer = LSHAttention(bucket_size=BUCKET, n_hashes=4)

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = layer(query.flatten(0, 1), value.flatten(0, 1))[0]
        return output.view_as(value) + 0.0 * key[..., :1]

    return run
