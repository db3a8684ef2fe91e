"""The claims of the documents that this project started from, each measured here: what was claimed, what was found, the verdict.

Axes: B samples, H heads, L tokens, D channels of a head. "Written by hand" is matmul, softmax, matmul, as tutorials write it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.advise.planning import plan
from regard.bench import memory
from regard.bench.line import Line
from regard.bench.score_scale import scale_rows
from regard.bench.timing import forward, normal, quartiles, row, seconds, training
from regard.nn.multi_head import MultiHeadAttention

LITTLE = 8.0  # MiB: less than that cannot be told from the noise of a process's memory


def lines(*, quick: bool = False) -> list[Line]:
    """Every claim; `quick`: an eighth of the tokens."""
    tokens = 64 if quick else 512
    claims = {
        "the fused kernel is 1.5 to 3 times as fast as attention written by hand, from L = 512": lambda n: _fused(
            tokens, n
        ),
        "the fused kernel takes 30 to 50 % less memory": lambda n: [_less_memory(tokens)],
        "16 heads instead of 8 at the same width: memory doubles, latency +8 %": lambda n: _heads(tokens, n),
        "32 x 512 tokens on 8 GB run out of memory with the open form": lambda n: founding_example(),
        "the weights of B = 8, H = 8, L = 512 in float32 take 67 MB": lambda n: [_weights_bytes()],
        "a key-value cache makes decoding several times as fast": lambda n: [_cache(tokens)],
        "a layer of width 512 has 787,968 + 262,656 parameters": lambda n: [_parameters()],
        "unscaled scores spread as sqrt(d_k), and softmax saturates": lambda n: scale_rows(),
    }
    return [Line(name, "the founding documents", run) for name, run in claims.items()]


def claim(claimed: str, measured: str, verdict: str, **numbers: object) -> dict:
    """A row of this bench."""
    return {"name": claimed, "measured": measured, "verdict": verdict, "numbers": numbers}


def within(value: float, low: float, high: float) -> str:
    """The verdict on a claim of a range; 10 % beside it are within the noise of the machine."""
    if value > high * 1.1:
        return "understated"
    return "confirmed" if value >= low * 0.9 else "not confirmed here"


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(B, H, L, D) three times to (B, H, L, D)."""
    return (query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5).softmax(dim=-1) @ value


def _fused(tokens: int, rounds: int) -> list[dict]:
    made = []
    for dtype in (torch.float32, torch.bfloat16):
        for B, length in ((2, tokens), (1, 4 * tokens)):
            for kind, step in (("forward", forward), ("training", training)):
                x = [normal(B, 8, length, 64, seed=seed, dtype=dtype) for seed in range(3)]
                found = row("", step(sdpa, *x), step(by_hand, *x), 1.5, rounds=min(rounds, 5))
                ratio = found["ratio"]
                name = f"{str(dtype)[6:]}, B = {B}, H = 8, L = {length:,}, {kind}: fused is 1.5 to 3 times as fast"
                made.append(claim(name, f"{ratio:.2f} times", within(ratio, 1.5, 3.0), ratio=ratio))
    return made


def _less_memory(tokens: int) -> dict:
    x = [normal(8, 8, tokens, 64, seed=seed) for seed in range(3)]
    held = [memory.extra(training(function, *x)) for function in (by_hand, by_hand, sdpa)][1:]  # the first warms up
    name = f"the fused kernel takes 30 to 50 % less memory (B = 8, H = 8, L = {tokens}, training)"
    if None in held:
        return claim(name, "this system does not tell the memory", "not measured")
    hand, fused = (float(x or 0.0) for x in held)
    less = 1 - fused / hand
    verdict = within(less, 0.3, 0.5)
    return claim(
        name, f"{hand:.0f} MiB by hand, {fused:.0f} MiB fused: {less:.0%} less", verdict, hand=hand, fused=fused
    )


def _heads(tokens: int, rounds: int) -> list[dict]:
    """One row by hand and one fused: width 512 in 8 heads of 64 and in 16 heads of 32."""
    made = []
    for way, function in (("by hand", by_hand), ("fused", sdpa)):
        x = {heads: [normal(8, heads, tokens, 512 // heads, seed=seed) for seed in range(3)] for heads in (8, 16)}
        steps = {heads: forward(function, *x[heads]) for heads in x}
        for step in steps.values():
            step()
        held = {heads: memory.extra(step) or 0.0 for heads, step in steps.items()}
        times = [(seconds(steps[8]), seconds(steps[16])) for _ in range(min(rounds, 5))]
        eight, sixteen = (quartiles(column)[0] for column in zip(*times, strict=True))
        more = sixteen / eight - 1
        doubled = held[8] > LITTLE and 1.7 < held[16] / held[8] < 2.3
        verdict = "confirmed" if doubled and abs(more - 0.08) < 0.1 else "not confirmed here"
        if doubled and verdict != "confirmed":
            verdict = "memory confirmed, latency not"
        said = f"memory {held[8]:.0f} to {held[16]:.0f} MiB, latency {more:+.0%}"
        name = f"16 heads instead of 8, width 512, B = 8, L = {tokens}, {way}: memory doubles, latency +8 %"
        made.append(claim(name, said, verdict, eight=held[8], sixteen=held[16], latency=more))
    return made


def founding_example() -> list[dict]:
    """From how many layers on a training step of 32 x 512 tokens, width 512, 8 heads, does not fit into 8 GB: as `plan` foretells."""
    made = []
    for dtype in ("fp16", "fp32"):
        fewest = {}
        for way in ("open", "fused"):
            sizes = {"batch": 32, "length": 512, "dtype": dtype, "memory": "8GB", "train": True}
            fewest[way] = next(n for n in range(1, 200) if not plan(512, 8, layers=n, **sizes).way(way).fits)
        six = plan(512, 8, layers=6, batch=32, length=512, dtype=dtype, train=True)
        peaks = {way: six.way(way).peak / 1e9 for way in fewest}
        said = (
            f"6 layers: open {peaks['open']:.2f} GB, fused {peaks['fused']:.2f} GB; over 8 GB from {fewest['open']} layers on with "
            f"the open form, from {fewest['fused']} on with the fused"
        )
        verdict = "confirmed" if fewest["open"] <= 6 else f"from {fewest['open']} layers on"
        name = f"32 x 512 tokens on 8 GB run out of memory with the open form (training, {dtype}, width 512, 8 heads; foretold)"
        made.append(claim(name, said, verdict, fewest=fewest, peaks=peaks))
    return made


def _weights_bytes() -> dict:
    scores = torch.empty(8, 8, 512, 512, device="meta")
    taken = scores.numel() * scores.element_size()
    verdict = "confirmed" if round(taken / 1e6) == 67 else "not confirmed here"
    return claim(
        "the weights of B = 8, H = 8, L = 512 in float32 take 67 MB", f"{taken / 1e6:.1f} MB", verdict, bytes=taken
    )


def _cache(tokens: int) -> dict:
    """Decode so many tokens with one layer of width 256: the whole prefix again at each step, and only the new token."""
    from regard.core.mask.band import causal

    layer = MultiHeadAttention(256, 4, mask=causal()).eval()
    x = normal(1, tokens, 256)

    def again() -> None:
        with torch.no_grad():
            for end in range(1, tokens + 1):
                layer(x[:, :end])

    def cached() -> None:
        with torch.no_grad():
            cache = layer.new_cache(1, tokens)
            for at in range(tokens):
                layer(x[:, at : at + 1], cache=cache)

    cached()
    times = {name: min(seconds(step) for _ in range(2)) for name, step in (("again", again), ("cached", cached))}
    ratio = times["again"] / times["cached"]
    name = f"a key-value cache makes decoding several times as fast ({tokens} tokens, width 256)"
    verdict = "understated" if ratio > 10 else "confirmed" if ratio >= 2 else "not confirmed here"
    return claim(name, f"{ratio:.1f} times", verdict, ratio=ratio)


def _parameters() -> dict:
    peer, ours = nn.MultiheadAttention(512, 8), MultiHeadAttention(512, 8)
    projections = sum(p.numel() for name, p in peer.named_parameters() if name.startswith("in_proj"))
    output = sum(p.numel() for p in peer.out_proj.parameters())
    mine = sum(p.numel() for p in ours.parameters())
    verdict = "confirmed" if (projections, output, mine) == (787_968, 262_656, 1_050_624) else "not confirmed here"
    said = f"nn.MultiheadAttention {projections:,} + {output:,}; ours {mine:,}"
    return claim(
        "width 512, 8 heads: 787,968 + 262,656 parameters", said, verdict, projections=projections, output=output
    )
