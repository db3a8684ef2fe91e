"""What fewer bits cost: error against float64 and time, of our layer and of the same layer with attention written by hand.

Axes: B samples, T tokens, E channels, H heads. The layer is causal, with half as many key heads.
The rule: our largest and mean error is at most twice that of the plain run in the same precision. Both use the same
projections, so that what differs is the attention.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from regard.bench.line import Line
from regard.bench.timing import normal, seconds
from regard.convert.int8 import to_int8
from regard.core.mask.band import causal
from regard.nn.compact_cache import CompactKVCache
from regard.nn.heads import to_heads
from regard.nn.multi_head import MultiHeadAttention

E, HEADS, KV_HEADS, B = 256, 8, 4, 2
ALLOWED = 2.0  # times the plain run's error
SIXTEEN = (torch.bfloat16, torch.float16)
Measure = Callable[[nn.Module, Tensor], list[Tensor]]  # what is compared: outputs, or gradients


def lines(*, quick: bool = False) -> list[Line]:
    """Every precision; `quick`: few tokens."""
    tokens = 32 if quick else 256
    rows: dict[str, Callable[[int], dict]] = {}
    for dtype in SIXTEEN:
        rows[f"{_name(dtype)}, inference"] = partial(_converted, dtype, tokens)
    for dtype in SIXTEEN:
        rows[f"{_name(dtype)} autocast, inference"] = partial(_autocast, dtype, tokens, False)
    rows["bfloat16 autocast, gradients of a training step"] = partial(_autocast, torch.bfloat16, tokens, True)
    for what in ("weights", "dynamic"):
        rows[f"int8 {what}, torch"] = partial(_int8, what, "torch", tokens)
    made = [Line(name, "attention by hand", _named(name, run)) for name, run in rows.items()]
    for what in ("weights", "dynamic"):
        name = f"int8 {what}, torchao"
        run = _named(name, partial(_int8, what, "torchao", tokens))
        made.append(Line(name, "attention by hand", run, ("torchao",)))
    for stored in (torch.bfloat16, torch.float16, torch.int8):
        name = f"key-value cache in {_name(stored)}, decoding"
        made.append(Line(name, "a cache in float32", _named(name, partial(_cache, stored, tokens))))
    return made


class ByHand(nn.Module):
    """The layer with matmul, softmax, matmul between its projections, every step in the dtype of its inputs."""

    def __init__(self, layer: MultiHeadAttention):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, E) to the same."""
        layer = self.layer
        query = to_heads(layer.q_proj(x), layer.head_dim, "q_proj")
        key, value = (to_heads(p(x), layer.head_dim, "k_proj") for p in (layer.k_proj, layer.v_proj))
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        scores = query @ key.transpose(-2, -1) * layer.head_dim**-0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        return layer.out_proj((weights.to(value.dtype) @ value).transpose(1, 2).flatten(2))


def errors(ours: list[Tensor], exact: list[Tensor]) -> tuple[float, float]:
    """The largest and the mean difference, over all tensors."""
    apart = [(a.double() - b.double()).abs() for a, b in zip(ours, exact, strict=True)]
    return max(float(x.amax()) for x in apart), float(torch.cat([x.flatten() for x in apart]).mean())


def precision_row(
    ours: Callable[[], list[Tensor]], plain: Callable[[], list[Tensor]], exact: list[Tensor], rounds: int
):
    """One row: errors of both against `exact`, the time of both, and whether the rule holds."""
    mine, theirs = errors(ours(), exact), errors(plain(), exact)
    times = [(seconds(ours), seconds(plain)) for _ in range(rounds)]
    quick, slow = (1e3 * sorted(column)[len(column) // 4] for column in zip(*times, strict=True))
    good = all(a <= ALLOWED * b for a, b in zip(mine, theirs))
    said = (
        f"error {mine[0]:.1e} (mean {mine[1]:.1e}), plain {theirs[0]:.1e} (mean {theirs[1]:.1e}), "
        f"{mine[0] / theirs[0]:.2f} times; {quick:.2f} ms, plain {slow:.2f} ms"
    )
    numbers = {"error": mine, "plain": theirs, "ms": quick, "plain_ms": slow, "allowed": ALLOWED}
    return {"measured": said, "verdict": "pass" if good else "fall-short", "numbers": numbers}


def layer_and_input(tokens: int) -> tuple[MultiHeadAttention, Tensor]:
    """The layer in eval mode, and x (B, T, E); the same in every run."""
    layer = MultiHeadAttention(E, HEADS, num_kv_heads=KV_HEADS, mask=causal()).eval()
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = normal(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5
    return layer, normal(B, tokens, E, seed=99)


def _outputs(module: nn.Module, x: Tensor) -> list[Tensor]:
    with torch.no_grad():
        return [module(x)]


def _gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Of the mean square of the output, in the input and every parameter that is used."""
    x = x.detach().clone().requires_grad_()
    module.zero_grad()
    module(x).float().square().sum().backward()
    return [x.grad, *(p.grad for p in module.parameters() if p.grad is not None)]  # pyright: ignore


def _both(measure: Measure, layer: MultiHeadAttention, x: Tensor, exact: list[Tensor], rounds: int, context) -> dict:
    plain = ByHand(layer)

    def run(module: nn.Module) -> list[Tensor]:
        with context():
            return measure(module, x)

    return precision_row(lambda: run(layer), lambda: run(plain), exact, rounds)


def _converted(dtype: torch.dtype, tokens: int, rounds: int) -> dict:
    layer, x = layer_and_input(tokens)
    small, given = copy.deepcopy(layer).to(dtype), x.to(dtype)
    exact = _outputs(copy.deepcopy(small).double(), given.double())  # of the rounded weights: what is lost on the way
    return _both(_outputs, small, given, exact, rounds, nullcontext)


def _autocast(dtype: torch.dtype, tokens: int, gradients: bool, rounds: int) -> dict:
    layer, x = layer_and_input(tokens)
    measure = _gradients if gradients else _outputs
    exact = measure(copy.deepcopy(layer).double(), x.double())

    def context() -> AbstractContextManager:
        return torch.autocast(x.device.type, dtype=dtype)

    return _both(measure, layer, x, exact, rounds, context)


def _int8(what: str, backend: str, tokens: int, rounds: int) -> dict:
    layer, x = layer_and_input(tokens)
    exact = _outputs(copy.deepcopy(layer).double(), x.double())
    small = to_int8(layer, what=what, backend=backend)  # pyright: ignore
    return _both(_outputs, small, x, exact, rounds, nullcontext)


def _cache(stored: torch.dtype, tokens: int, rounds: int) -> dict:
    """Decoding one token at a time; the plain run rounds every key and value to `stored` once, in the same way."""
    layer, x = layer_and_input(min(tokens, 64))
    exact = _outputs(copy.deepcopy(layer).double(), x.double())
    empty = layer.new_cache(B, x.shape[1])
    held: list[CompactKVCache] = []

    def decode(cache) -> list[Tensor]:
        with torch.no_grad():
            return [torch.cat([layer(token, cache=cache) for token in x.split(1, dim=1)], dim=1)]

    def ours() -> list[Tensor]:
        held[:] = [CompactKVCache.like(empty, stored=stored)]
        return decode(held[0])

    def plain() -> list[Tensor]:
        return decode(layer.new_cache(B, x.shape[1]))

    made = precision_row(ours, plain, exact, rounds)
    bound = 2 * _rounding(stored)
    error, size = made["numbers"]["error"][0] / float(exact[0].abs().amax()), held[0].nbytes
    full = empty.key.numel() * 4 + empty.value.numel() * 4
    said = f"error {error:.1e} of the largest output, at most {bound:.1e}; {size / full:.0%} of the bytes of float32"
    verdict = "pass" if error <= bound else "fall-short"
    return {**made, "measured": f"{said}; {made['measured'].rpartition('; ')[2]}", "verdict": verdict}


def _rounding(stored: torch.dtype) -> float:
    """The largest relative step of what is stored: of the largest number of a token where it is int8."""
    return 1 / 127 if stored == torch.int8 else torch.finfo(stored).eps


def _named(name: str, run: Callable[[int], dict]) -> Callable[[int], list[dict]]:
    return lambda rounds: [{"name": name, **run(rounds)}]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
