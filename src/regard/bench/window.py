"""Sliding windows against local-attention, Hugging Face's Longformer and torch's kernel with a band; cost against length."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench.timing import Step, forward, normal, one_thread, row, seconds, training, verdict
from regard.core.attention import attention
from regard.core.mask.band import sliding_window

ROUNDS = 5
TOKENS, HEADS, WIDTH, REACH = 4096, 4, 64, 256


def rows(*, rounds: int = ROUNDS) -> list[dict]:
    """Measure every line whose peer is installed; see `timing.row` for what a row holds."""
    with one_thread():
        lines = [row(name, ours, peer, target, rounds=rounds) for name, ours, peer, target in comparisons()]
        return [*lines, per_token(rounds)]


def comparisons() -> Iterator[tuple[str, Step, Step, float]]:
    """Name, ours, the peer's, and the least ratio."""
    tensors = [normal(1, HEADS, TOKENS, WIDTH, seed=seed) for seed in range(3)]
    mask = sliding_window(REACH, REACH)
    band = mask.materialise(TOKENS, TOKENS)
    for name, step, target in (("forward", forward, 6.0), ("forward + backward", training, 4.0)):
        ours, peer = (
            step(lambda *x: attention(*x, mask=mask), *tensors),
            step(lambda *x: sdpa(*x, attn_mask=band), *tensors),
        )
        yield (
            f"window of {REACH} on both sides, {TOKENS:,} tokens, against torch with a band, {name}",
            ours,
            peer,
            target,
        )
    if importlib.util.find_spec("local_attention") is not None:
        yield from _local_attention(tensors)
    if importlib.util.find_spec("transformers") is not None:
        yield from _longformer()


def _local_attention(tensors: list[Tensor]) -> Iterator[tuple[str, Step, Step, float]]:
    from local_attention import LocalAttention  # pyright: ignore[reportMissingImports]

    theirs = LocalAttention(
        window_size=REACH, look_backward=1, look_forward=1, exact_windowsize=True, use_rotary_pos_emb=False, dropout=0.0
    )
    mask = sliding_window(REACH, REACH)
    for name, step, target in (("forward", forward, 4.0), ("forward + backward", training, 2.5)):
        ours, peer = step(lambda *x: attention(*x, mask=mask), *tensors), step(lambda *x: theirs(*x), *tensors)
        yield f"window of {REACH} on both sides, {TOKENS:,} tokens, against local-attention, {name}", ours, peer, target


def _longformer() -> Iterator[tuple[str, Step, Step, float]]:
    from transformers import LongformerConfig  # pyright: ignore[reportMissingImports]
    from transformers.models.longformer.modeling_longformer import (  # pyright: ignore[reportMissingImports]
        LongformerSelfAttention,
    )

    embed = HEADS * WIDTH
    config = LongformerConfig(
        hidden_size=embed, num_attention_heads=HEADS, attention_window=[2 * REACH], attention_probs_dropout_prob=0.0
    )
    torch.manual_seed(0)
    layer = LongformerSelfAttention(config, layer_id=0).eval()
    hidden = normal(1, TOKENS, embed)
    visible, nowhere = torch.zeros(1, TOKENS), torch.zeros(1, TOKENS, dtype=torch.bool)

    def theirs(x: Tensor) -> Tensor:
        return layer(
            x, attention_mask=visible, is_index_masked=nowhere, is_index_global_attn=nowhere, is_global_attn=False
        )[0]

    def heads(x: Tensor, projection: nn.Linear) -> Tensor:
        return projection(x).unflatten(2, (HEADS, WIDTH)).transpose(1, 2)

    def ours(x: Tensor) -> Tensor:
        parts = [heads(x, projection) for projection in (layer.query, layer.key, layer.value)]
        return attention(*parts, mask=sliding_window(REACH, REACH)).transpose(1, 2).flatten(2)

    for name, step, target in (("forward", forward, 4.5), ("forward + backward", training, 5.0)):
        yield f"the same as a layer against Longformer's, {name}", step(ours, hidden), step(theirs, hidden), target


def per_token(rounds: int) -> dict:
    """Time per token at 65,536 tokens over that at 4,096: 0.8 is a quarter more."""
    mask, times = sliding_window(REACH, REACH), []
    for tokens in (TOKENS, 16 * TOKENS):
        tensors = [normal(1, HEADS, tokens, WIDTH, seed=seed) for seed in range(3)]
        step = forward(lambda *x: attention(*x, mask=mask), *tensors)
        times.append(sorted(seconds(step) / tokens for _ in range(rounds))[rounds // 4] * 1e3)
    name = f"time per token, {16 * TOKENS:,} against {TOKENS:,} tokens"
    return verdict(name, times[1], times[0], times[0] / times[1], 0.8)
