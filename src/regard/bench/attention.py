"""`attention()` against torch's own: the overhead of a call, the repairs, padding, learned biases, bfloat16 training."""

from __future__ import annotations

import time

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench import layer_peers
from regard.bench.line import Line, Pair, Work, compare
from regard.bench.timing import forward, normal, quartiles, row, training, verdict
from regard.core.attention import attention
from regard.core.mask.band import causal
from regard.core.mask.sequences import documents, padding

OUTSIDE = 20.0  # microseconds that a call may take besides the kernel


def lines(*, quick: bool = False) -> list[Line]:
    """Every line; `quick` takes an eighth of the tokens."""
    part = 8 if quick else 1
    return [
        Line("a small call, outside the kernel", "torch", lambda rounds: [overhead(calls=300 // part, rounds=rounds)]),
        *_repairs(1024 // part),
        *_causal_with_padding(4096 // part),
        _learned_bias(1024 // part),
        *_padded(512 // part),
        *_bfloat16(part),
        *layer_peers.lines(512 // part),
    ]


def overhead(*, calls: int = 300, rounds: int = 7) -> dict:
    """Microseconds that a small call takes outside the kernel; the ratio is what is taken over what is allowed."""
    x = normal(1, 8, 1, 64)
    ours, peer = forward(lambda q: attention(q, q, q), x), forward(lambda q: sdpa(q, q, q), x)
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for step, column in zip((ours, peer), times, strict=True):
            start = time.process_time()
            for _ in range(calls):
                step()
            column.append((time.process_time() - start) / calls * 1e3)
    spread = {"ours": quartiles(times[0]), "peer": quartiles(times[1])}
    fast, slow = spread["ours"][0], spread["peer"][0]
    outside = max(1e-3, (fast - slow) * 1e3)
    made = verdict("a small call, outside the kernel", fast, slow, outside / OUTSIDE, 1.0, sense="at most")
    return {**made, "value": outside, "allowed": OUTSIDE, "unit": "us", "quartiles": spread}


def _repairs(tokens: int) -> list[Line]:
    shape = (2, 8, tokens)
    work = Work(4 * 16 * tokens**2 * 64, 4 * 16 * tokens * 64 * 4)

    def narrow_values() -> Pair:
        x = [normal(*shape, 64), normal(*shape, 64, seed=1), normal(*shape, 32)]
        return forward(attention, *x), forward(sdpa, *x)

    def strided() -> Pair:
        x = [torch.stack([normal(*shape, 64, seed=s)] * 2, dim=-1)[..., 0] for s in range(3)]
        return forward(attention, *x), forward(sdpa, *x)

    def masked_keys() -> Pair:
        """No mask on ours: a mask of three axes is refused at the door, so what is compared is the same call without one."""
        x = [normal(*shape, 64, seed=s) for s in range(3)]
        table = torch.ones(1, tokens, tokens, dtype=torch.bool)
        return forward(lambda *x: attention(*x, mask=table[None]), *x), forward(
            lambda *x: sdpa(*x, attn_mask=table), *x
        )

    return [
        compare("values half as wide as keys, forward", "torch", narrow_values, 3.0, work=work),
        compare("channels not next to each other, forward", "torch", strided, 3.0, work=work),
        compare("a mask of three axes, given as four, forward", "torch", masked_keys, 3.0, work=work),
    ]


def _causal_with_padding(tokens: int) -> list[Line]:
    made = []
    for name, step, target, factor in (("forward", forward, 2.3, 1.0), ("forward + backward", training, 1.9, 3.5)):

        def make(step=step) -> Pair:
            tensors = [normal(1, 4, tokens, 64, seed=seed) for seed in range(3)]
            keep = torch.arange(tokens)[None] < tokens * 3 // 4
            table = torch.ones(tokens, tokens, dtype=torch.bool).tril() & keep[:, None, None]
            ours = step(lambda *x: attention(*x, mask=causal() & padding(keep)), *tensors)
            return ours, step(lambda *x: sdpa(*x, attn_mask=table), *tensors)

        what = f"causal with padding, {tokens:,} tokens, against a T x T boolean, {name}"
        made.append(compare(what, "torch", make, target, work=Work(factor * 2 * 4 * tokens**2 * 64)))
    return made


def _learned_bias(tokens: int) -> Line:
    def make() -> Pair:
        x = [*(normal(4, 4, tokens, 64, seed=seed) for seed in range(3)), normal(1, 4, tokens, tokens, seed=3)]
        ours = training(lambda q, k, v, b: attention(q, k, v, bias=b), *x)
        return ours, training(lambda q, k, v, b: sdpa(q, k, v, attn_mask=b), *x)

    what = f"learned bias, 4 x 4 x {tokens:,}, forward + backward"
    return compare(what, "torch", make, 1.7, work=Work(3.5 * 4 * 16 * tokens**2 * 64))


def _padded(tokens: int) -> list[Line]:
    """A batch of which 56 % is real, with the padded keys hidden, and with the padded queries left out too."""
    lengths = torch.tensor([512, 96, 300, 210, 400, 128, 350, 298]) * tokens // 512

    def line(name: str) -> Line:
        what = f"padded batch, 56 % real, {name}, forward"

        def run(rounds: int) -> list[dict]:
            tensors = [normal(8, 8, tokens, 64, seed=seed) for seed in range(3)]
            keep = torch.arange(tokens)[None] < lengths[:, None]
            mask = padding(keep) if name.startswith("padding") else documents(torch.where(keep, 0, -1))
            peer = forward(lambda *x: sdpa(*x, attn_mask=keep[:, None, None]), *tensors)
            ours = forward(lambda *x: attention(*x, mask=mask), *tensors)
            return [row(what, ours, peer, 1.9, rounds=rounds, where=keep[:, None, :, None])]

        return Line(what, "torch", run)

    return [line("padding(keep)"), line("documents(-1 where padding)")]


def _bfloat16(part: int) -> list[Line]:
    """Training in bfloat16: what ours costs of the better of torch's and the open form."""
    made = []
    for tokens in (128, 256, 512, 1024):
        for mask in (None, causal()):
            what = f"bfloat16 training, 2 x 8 x {tokens // part}{', causal' if mask is not None else ''}"

            def run(rounds: int, tokens=tokens // part, mask=mask, what=what) -> list[dict]:
                tensors = [normal(2, 8, tokens, 64, seed=seed, dtype=torch.bfloat16) for seed in range(3)]
                ours = training(lambda *x: attention(*x, mask=mask), *tensors)
                peers = [
                    training(lambda *x: sdpa(*x, is_causal=mask is not None), *tensors),
                    training(lambda *x: attention(*x, mask=mask, backend="open"), *tensors),
                ]
                work = Work(3.5 * 4 * 16 * tokens**2 * 64, dtype="bfloat16")._asdict()
                found = (row(what, ours, p, 1.1, rounds=rounds, sense="at most", work=work) for p in peers)
                return [max(found, key=lambda made: made["ratio"])]

            made.append(Line(what, "the better of torch and the open form", run))
    return made
