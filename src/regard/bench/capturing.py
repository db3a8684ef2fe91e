"""What `capture` at level "summary" costs: against the same forward without it, and against an open form that returns every weight."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.bench import memory
from regard.bench.line import Line, compare
from regard.bench.timing import amount, normal, verdict
from regard.core.attention import attention_weights
from regard.nn.heads import to_heads
from regard.nn.multi_head import MultiHeadAttention
from regard.recording.capture import capture

HEADS, WIDTH = 4, 256


def lines(*, quick: bool = False) -> list[Line]:
    """Every line: 512, 2,048 and 8,192 tokens and a layer of 32,768; `quick`: an eighth, and no long layer."""
    made = []
    for tokens in (512, 2048, 8192):
        tokens //= 8 if quick else 1
        what = f'capture at "summary", {HEADS} heads, {tokens:,} tokens'
        made += [
            compare(
                what, "the same forward without capture", lambda n=tokens: _plain(n), None, sense="at most", rounds=3
            ),
            compare(what, "an open form with full weights", lambda n=tokens: _eager(n), None, rounds=3),
        ]
    return made if quick else [*made, _long(32_768)]


def _made(tokens: int) -> tuple[MultiHeadAttention, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MultiHeadAttention(WIDTH, HEADS).eval(), normal(1, tokens, WIDTH)


def _captured(layer: MultiHeadAttention, x: Tensor):
    def step() -> list[Tensor]:
        with torch.no_grad(), capture(layer):
            return [layer(x)]

    return step


def _plain(tokens: int):
    layer, x = _made(tokens)

    def theirs() -> list[Tensor]:
        with torch.no_grad():
            return [layer(x)]

    return _captured(layer, x), theirs


def _eager(tokens: int):
    layer, x = _made(tokens)

    def theirs() -> list[Tensor]:
        with torch.no_grad():
            q, k, v = (to_heads(p(x), WIDTH // HEADS, "") for p in (layer.q_proj, layer.k_proj, layer.v_proj))
            theirs.weights = attention_weights(q, k)
            return [layer.out_proj((theirs.weights @ v).transpose(1, 2).flatten(2))]

    return _captured(layer, x), theirs


LONG = """
import json, time, torch
import regard
from regard.bench import memory
torch.set_num_threads(1)
torch.manual_seed(0)
layer = regard.nn.MultiHeadAttention(512, 8).eval()
def forward(x):
    with torch.no_grad():
        return layer(x)
def captured(x):
    with regard.capture(layer) as cap:
        forward(x)
    return cap
def measured(step):
    start = time.process_time()
    extra = memory.extra(step)
    return {"seconds": time.process_time() - start, "extra": extra}
short, x = torch.randn(1, 64, 512), torch.randn(1, %d, 512)
forward(short), captured(short)
print(json.dumps({"plain": measured(lambda: forward(x)), "captured": measured(lambda: captured(x))}))
"""


def _long(tokens: int) -> Line:
    what = f'capture at "summary", 8 heads of 64, {tokens:,} tokens, own process'

    def run(_: int) -> list[dict]:
        found = memory.in_own_process(LONG % tokens, timeout=1800)
        plain, captured = found["plain"], found["captured"]
        slower = captured["seconds"] / plain["seconds"]
        made = [
            verdict(
                f"{what}, time",
                captured["seconds"] * 1e3,
                plain["seconds"] * 1e3,
                slower,
                2.3,
                sense="at most",
                rounds=1,
            )
        ]
        if captured["extra"] is not None:
            more = captured["extra"] - plain["extra"]
            made.append(amount(f"{what}, memory beyond the plain forward", max(more, 0.1), 200.0, "MiB"))
        return made

    return Line(what, "the same forward without capture", run)
