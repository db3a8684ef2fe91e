"""`attention()` against torch's own: the overhead of a call, the repairs, padding, learned biases, bfloat16 training."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench.timing import Step, forward, normal, one_thread, row, training, verdict
from regard.core.attention import attention
from regard.core.mask.band import causal
from regard.core.mask.sequences import documents, padding

ROUNDS = 7
OUTSIDE = 20.0  # microseconds that a call may take besides the kernel


def rows(*, rounds: int = ROUNDS) -> list[dict]:
    """Measure every line; see `timing.row` for what a row holds."""
    with one_thread():
        lines = [overhead()]
        for name, ours, peer, target in comparisons():
            lines.append(row(name, ours, peer, target, rounds=rounds))
        return [*lines, *padded(rounds), *bfloat16(rounds)]


def overhead(*, calls: int = 300, rounds: int = ROUNDS) -> dict:
    """Microseconds that a small call takes outside the kernel; the ratio is what is allowed over what is taken."""
    x = normal(1, 8, 1, 64)
    ours, peer = forward(lambda q: attention(q, q, q), x), forward(lambda q: sdpa(q, q, q), x)
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for step, column in zip((ours, peer), times, strict=True):
            start = time.process_time()
            for _ in range(calls):
                step()
            column.append((time.process_time() - start) / calls * 1e3)
    fast, slow = (sorted(column)[rounds // 4] for column in times)
    outside = max(1e-3, (fast - slow) * 1e3)
    return verdict(f"{OUTSIDE:g} us over the time outside the kernel", fast, slow, OUTSIDE / outside, 1.0)


def comparisons() -> Iterator[tuple[str, Step, Step, float]]:
    """Name, ours, torch's, and the least ratio."""
    q, k, v, narrow = (
        normal(2, 8, 1024, 64),
        normal(2, 8, 1024, 64, seed=1),
        normal(2, 8, 1024, 64),
        normal(2, 8, 1024, 32),
    )
    yield "values half as wide as keys, forward", forward(attention, q, k, narrow), forward(sdpa, q, k, narrow), 3.0
    strided = [torch.stack([x, x], dim=-1)[..., 0] for x in (q, k, v)]
    yield "channels not next to each other, forward", forward(attention, *strided), forward(sdpa, *strided), 3.0
    yield from _causal_with_padding()
    yield from _learned_bias()


def _causal_with_padding() -> Iterator[tuple[str, Step, Step, float]]:
    tensors = [normal(1, 4, 4096, 64, seed=seed) for seed in range(3)]
    keep = torch.arange(4096)[None] < 3000
    table = torch.ones(4096, 4096, dtype=torch.bool).tril() & keep[:, None, None]
    for name, step, target in (("forward", forward, 2.3), ("forward + backward", training, 1.9)):
        ours = step(lambda *x: attention(*x, mask=causal() & padding(keep)), *tensors)
        peer = step(lambda *x: sdpa(*x, attn_mask=table), *tensors)
        yield f"causal with padding, 4,096 tokens, against a T x T boolean, {name}", ours, peer, target


def _learned_bias() -> Iterator[tuple[str, Step, Step, float]]:
    tensors = [*(normal(4, 4, 1024, 64, seed=seed) for seed in range(3)), normal(1, 4, 1024, 1024, seed=3)]
    ours = training(lambda q, k, v, b: attention(q, k, v, bias=b), *tensors)
    peer = training(lambda q, k, v, b: sdpa(q, k, v, attn_mask=b), *tensors)
    yield "learned bias, 4 x 4 x 1,024, forward + backward", ours, peer, 1.7


def padded(rounds: int) -> list[dict]:
    """A batch of which 56 % is real, with the padded keys hidden, and with the padded queries left out too."""
    lengths = torch.tensor([512, 96, 300, 210, 400, 128, 350, 298])
    tensors = [normal(8, 8, 512, 64, seed=seed) for seed in range(3)]
    keep = torch.arange(512)[None] < lengths[:, None]
    peer = forward(lambda *x: sdpa(*x, attn_mask=keep[:, None, None]), *tensors)
    masks = {"padding(keep)": padding(keep), "documents(-1 where padding)": documents(torch.where(keep, 0, -1))}
    lines = []
    for name, mask in masks.items():
        ours = forward(lambda *x, mask=mask: attention(*x, mask=mask), *tensors)
        title = f"padded batch, 56 % real, {name}, forward"
        lines.append(row(title, ours, peer, 1.9, rounds=rounds, where=keep[:, None, :, None]))
    return lines


def bfloat16(rounds: int) -> list[dict]:
    """Training in bfloat16: the better of torch's and the open form over ours; 0.91 is 1.1 times as slow."""
    lines = []
    for tokens in (128, 256, 512, 1024):
        for mask in (None, causal()):
            tensors = [normal(2, 8, tokens, 64, seed=seed, dtype=torch.bfloat16) for seed in range(3)]
            ours = training(lambda *x, mask=mask: attention(*x, mask=mask), *tensors)
            peers = [
                training(lambda *x, mask=mask: sdpa(*x, is_causal=mask is not None), *tensors),
                training(lambda *x, mask=mask: attention(*x, mask=mask, backend="open"), *tensors),
            ]
            name = f"bfloat16 training, 2 x 8 x {tokens}{', causal' if mask is not None else ''}, against the better"
            lines.append(min((row(name, ours, p, 0.91, rounds=rounds) for p in peers), key=lambda line: line["ratio"]))
    return lines
