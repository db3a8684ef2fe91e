"""Claims on decoding with a key-value cache: the same outputs, faster with length, and what a cache left over does.

Axes: B samples, T tokens, E channels. Times are CPU times of one thread, the faster of two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from regard.core.mask.band import causal
from regard.nn.multi_head import MultiHeadAttention
from regard.recipes.experiments.claim import Claim, Found, decided
from regard.recipes.experiments.masking import layer_of
from regard.recipes.experiments.softmax_scores import normal

LENGTHS = (32, 128, 384)


def cached_of(layer: MultiHeadAttention, x: Tensor, cache=None) -> Tensor:
    """The outputs token by token, (B, T, E)."""
    cache = layer.new_cache(x.shape[0], 4 * x.shape[1]) if cache is None else cache
    return torch.cat([layer(x[:, t : t + 1], cache=cache) for t in range(x.shape[1])], 1)


def _again(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    return torch.cat([layer(x[:, : t + 1])[:, -1:] for t in range(x.shape[1])], 1)


@lru_cache(maxsize=3)  # two claims read it
@torch.no_grad()
def with_and_without(seed: int) -> dict[str, float]:
    """For each length: the largest difference of the outputs, and how many times faster the cache is."""
    layer, found, threads = layer_of(seed, 256, 4, mask=causal()), {}, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for length in LENGTHS:
            x = normal(1, length, 256, seed=seed + 1)
            apart = (cached_of(layer, x) - layer(x)).abs().max()
            times = [min(_seconds(run, layer, x) for _ in range(2)) for run in (_again, cached_of)]
            found |= {f"apart_{length}": float(apart), f"times_{length}": times[0] / times[1]}
    finally:
        torch.set_num_threads(threads)
    return found


def _seconds(run: Callable, layer: MultiHeadAttention, x: Tensor) -> float:
    begun = time.process_time()
    run(layer, x)
    return time.process_time() - begun


@torch.no_grad()
def left_over(seed: int) -> dict[str, float]:
    """A second sequence of 16 tokens: with the first one's cache, with the cache reset, and with a new one."""
    layer = layer_of(seed, 64, 4, mask=causal())
    first, second = normal(1, 16, 64, seed=seed + 1), normal(1, 16, 64, seed=seed + 2)
    cache = layer.new_cache(1, 64)
    cached_of(layer, first, cache)
    stale = cached_of(layer, second, cache)
    cache.reset()
    again = cached_of(layer, second, cache)
    right = layer(second)
    return {"stale": float((stale - right).norm() / right.norm()), "reset": float((again - right).abs().max())}


def _faster(found: Found) -> str:
    times = [found.mean(f"times_{length}") for length in LENGTHS]
    return decided(times == sorted(times) and times[-1] >= 2, times[-1] >= 2)


CLAIMS = [
    Claim(
        "cache-equality",
        ("Decoding with a cache gives the outputs of the full forward", "带缓存的解码与完整前向的输出相同"),
        ("our layer, width 256, 4 heads, causal, 32, 128 and 384 tokens, float32", "我们的层，宽 256，4 头，因果，32、128、384 个词元，float32"),
        ("largest difference under 1e-5", "最大差小于 1e-5"),
        ("largest difference {apart_32:.1e}, {apart_128:.1e}, {apart_384:.1e}", "最大差 {apart_32:.1e}、{apart_128:.1e}、{apart_384:.1e}"),
        with_and_without, lambda f: decided(max(f[f"apart_{n}"].high for n in LENGTHS) < 1e-5),
    ),
    Claim(
        "cache-gain-grows",
        ("The gain of a cache grows with the length", "缓存的收益随长度增长"),
        ("as cache-equality; CPU time of one thread for all tokens one by one, the whole prefix again or only the new token", "同 cache-equality；单线程 CPU 时间，逐个词元：每次重算整个前缀，或只算新词元"),
        ("the ratio grows from length to length and is at least 2 at 384", "比值随长度递增，且在 384 处不小于 2"),
        ("{times_32:.1f}, {times_128:.1f}, {times_384:.1f} times as fast at 32, 128, 384 tokens", "32、128、384 个词元时快 {times_32:.1f}、{times_128:.1f}、{times_384:.1f} 倍"),
        with_and_without, _faster,
    ),
    Claim(
        "stale-cache",
        ("A cache that is not emptied between sequences changes the second one", "序列之间不清空缓存会改变第二个序列"),
        ("width 64, 4 heads, causal, two sequences of 16 tokens; against the second one alone", "宽 64，4 头，因果，两个 16 个词元的序列；与单独的第二个相比"),
        ("the output moves by more than 10 % of its norm, and after reset() by less than 1e-5", "输出变化超过其范数的 10 %，reset() 之后小于 1e-5"),
        ("{stale:.0%} of the norm with the old cache; at most {reset:.0e} after reset()", "旧缓存：范数的 {stale:.0%}；reset() 之后最多 {reset:.0e}"),
        left_over, lambda f: decided(f["stale"].low > 0.1 and f["reset"].high < 1e-5), seeds=3,
    ),
]  # fmt: skip
