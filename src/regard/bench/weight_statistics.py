"""Statistics of the weights without the T x S matrix: against full weights, and against the kernel that returns no weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.bench import memory
from regard.bench.line import Line, Pair, Work, compare
from regard.bench.timing import amount, normal
from regard.core.attention import attention_weights
from regard.core.mask.band import causal
from regard.core.statistics import attention_statistics

HEADS, WIDTH = 2, 64


def lines(*, quick: bool = False) -> list[Line]:
    """Every line: 4,096 tokens, and the memory of 32,768; `quick`: 256 and 2,048."""
    tokens = 256 if quick else 4096
    work = Work(4 * HEADS * tokens**2 * WIDTH)
    made = []
    for kind, mask in (("", None), (", causal", causal())):
        what = f"output, entropy, largest and received, {tokens:,} tokens{kind}"
        made += [
            compare(what, "full weights", lambda m=mask: _full(tokens, m), 3.0, rounds=5, work=work),
            compare(
                what,
                "torch (output only)",
                lambda m=mask: _kernel(tokens, m),
                1.9,
                sense="at most",
                rounds=5,
                work=work,
            ),
        ]
    return [*made, _long(8 * tokens)]


def _tensors(tokens: int) -> list[Tensor]:
    return [normal(1, HEADS, tokens, WIDTH, seed=seed) for seed in range(3)]


def _ours(tensors: list[Tensor], mask) -> list[Tensor]:
    with torch.no_grad():
        found = attention_statistics(*tensors, mask=mask)
    return [found.output, found.entropy, found.max, found.received]


def _full(tokens: int, mask) -> Pair:
    tensors = _tensors(tokens)

    def theirs() -> list[Tensor]:
        with torch.no_grad():
            weights = attention_weights(tensors[0], tensors[1], mask=mask)
            entropy = -torch.xlogy(weights, weights).sum(-1)
            return [weights @ tensors[2], entropy, weights.amax(-1), weights.sum(-2)]

    return lambda: _ours(tensors, mask), theirs


def _kernel(tokens: int, mask) -> Pair:
    tensors = _tensors(tokens)

    def theirs() -> list[Tensor]:
        with torch.no_grad():
            return [sdpa(tensors[0], tensors[1], tensors[2], is_causal=mask is not None)]

    return lambda: _ours(tensors, mask)[:1], theirs


LONG = """
import json, torch
from regard.bench import memory
from regard.core.statistics import attention_statistics
torch.set_num_threads(1)
def run(tokens):
    x = [torch.randn(1, 1, tokens, 64, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    return lambda: attention_statistics(*x)
run(64)()
print(json.dumps({{"extra": memory.extra(run({tokens}))}}))
"""


def _long(tokens: int) -> Line:
    what = f"statistics of {tokens:,} tokens, 1 head, extra memory, own process"

    def run(_: int) -> list[dict]:
        if not memory.can_measure():
            return [{"name": what, "verdict": "missing", "missing": [str(memory.MARK)]}]
        return [amount(what, memory.in_own_process(LONG.format(tokens=tokens))["extra"], 100.0, "MiB")]

    return Line(what, "itself", run)
