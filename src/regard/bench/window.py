"""Sliding windows against local-attention, Hugging Face's Longformer and torch's kernel with a band; cost against length."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench import memory
from regard.bench.line import Line, Pair, Work, compare
from regard.bench.timing import amount, forward, normal, quartiles, seconds, training, verdict
from regard.core.attention import attention
from regard.core.mask.band import sliding_window

HEADS, WIDTH = 4, 64


def lines(*, quick: bool = False) -> list[Line]:
    """Every line: 4,096 tokens and a window of 256 on both sides; `quick`: 512 and 32."""
    tokens, reach = (512, 32) if quick else (4096, 256)
    flops = 4 * HEADS * tokens * (2 * reach + 1) * WIDTH
    where = f"window of {reach} on both sides, {tokens:,} tokens"
    made = []
    for name, step, factor, targets in (
        ("forward", forward, 1.0, (4.0, 4.5, 6.0)),
        ("forward + backward", training, 3.5, (2.5, 5.0, 4.0)),
    ):
        work = Work(factor * flops)
        for against, make, target, needs in (
            ("local-attention", _local_attention, targets[0], ("local_attention",)),
            ("Longformer (transformers)", _longformer, targets[1], ("transformers",)),
            ("torch with a band", _band, targets[2], ()),
        ):
            what = f"{where}, {'as a layer, ' if needs == ('transformers',) else ''}{name}"
            line = compare(
                what, against, lambda m=make, s=step: m(s, tokens, reach), target, needs=needs, rounds=5, work=work
            )
            made.append(line)
    return [*made, *_against_length(tokens, reach)]


def _band(step, tokens: int, reach: int) -> Pair:
    tensors = [normal(1, HEADS, tokens, WIDTH, seed=seed) for seed in range(3)]
    mask = sliding_window(reach, reach)
    band = mask.materialise(tokens, tokens)
    ours = step(lambda *x: attention(*x, mask=mask), *tensors)
    return ours, step(lambda *x: sdpa(*x, attn_mask=band), *tensors)


def _local_attention(step, tokens: int, reach: int) -> Pair:
    from local_attention import LocalAttention  # pyright: ignore[reportMissingImports]

    tensors = [normal(1, HEADS, tokens, WIDTH, seed=seed) for seed in range(3)]
    theirs = LocalAttention(
        window_size=reach, look_backward=1, look_forward=1, exact_windowsize=True, use_rotary_pos_emb=False, dropout=0.0
    )
    mask = sliding_window(reach, reach)
    return step(lambda *x: attention(*x, mask=mask), *tensors), step(lambda *x: theirs(*x), *tensors)


def _longformer(step, tokens: int, reach: int) -> Pair:
    from transformers import LongformerConfig  # pyright: ignore[reportMissingImports]
    from transformers.models.longformer.modeling_longformer import (  # pyright: ignore[reportMissingImports]
        LongformerSelfAttention,
    )

    embed = HEADS * WIDTH
    config = LongformerConfig(
        hidden_size=embed, num_attention_heads=HEADS, attention_window=[2 * reach], attention_probs_dropout_prob=0.0
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = LongformerSelfAttention(config, layer_id=0).eval()
    hidden = normal(1, tokens, embed)
    visible, nowhere = torch.zeros(1, tokens), torch.zeros(1, tokens, dtype=torch.bool)

    def theirs(x: Tensor) -> Tensor:
        return layer(
            x, attention_mask=visible, is_index_masked=nowhere, is_index_global_attn=nowhere, is_global_attn=False
        )[0]

    def heads(x: Tensor, projection: nn.Linear) -> Tensor:
        return projection(x).unflatten(2, (HEADS, WIDTH)).transpose(1, 2)

    def ours(x: Tensor) -> Tensor:
        parts = [heads(x, projection) for projection in (layer.query, layer.key, layer.value)]
        return attention(*parts, mask=sliding_window(reach, reach)).transpose(1, 2).flatten(2)

    return step(ours, hidden), step(theirs, hidden)


def _against_length(tokens: int, reach: int) -> list[Line]:
    long = 16 * tokens
    time_name = f"window of {reach}, time per token, {long:,} against {tokens:,} tokens"
    memory_name = f"window of {reach}, {long:,} tokens, extra memory beside the output, in outputs"

    def per_token(rounds: int) -> list[dict]:
        spread = [
            quartiles([1e3 * seconds(_step(n, reach)) / n for _ in range(min(rounds, 5))]) for n in (long, tokens)
        ]
        made = verdict(time_name, spread[0][0], spread[1][0], spread[0][0] / spread[1][0], 1.25, sense="at most")
        return [{**made, "quartiles": {"ours": spread[0], "peer": spread[1]}}]

    def held(rounds: int) -> list[dict]:
        step = _step(long, reach)
        step()
        most, output = memory.extra(step), HEADS * long * WIDTH * 4 / memory.MEBI
        if most is None:
            return [{"name": memory_name, "verdict": "missing", "missing": ["/proc/self/clear_refs"]}]
        return [amount(memory_name, (most - output) / output, 2.0, "outputs")]

    return [Line(time_name, "itself", per_token), Line(memory_name, "itself", held)]


def _step(tokens: int, reach: int):
    tensors = [normal(1, HEADS, tokens, WIDTH, seed=seed) for seed in range(3)]
    return forward(lambda *x: attention(*x, mask=sliding_window(reach, reach)), *tensors)
