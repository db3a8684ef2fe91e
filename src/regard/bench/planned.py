"""Whether `regard plan` foretells the peak of memory: the planned model is run in a process of its own, and both are compared.

The grid is drawn from a seed; no formula of `advise` was fitted to it. What is measured is the high-water mark of resident memory
minus what was resident before the model was made. The allocator is told to return freed tensors to the system at once, as it does by
itself with large ones (MALLOC_MMAP_THRESHOLD_, glibc); without that, it keeps up to a fifth more of tensors below 32 MiB.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.advise.step import walk
from regard.advise.work import Work
from regard.bench import memory
from regard.bench.line import Line
from regard.bench.timing import verdict
from regard.core.attention import attention
from regard.core.mask.band import causal, sliding_window
from regard.nn import multi_head
from regard.nn.kv_cache import KVCache
from regard.nn.linear_attention import LinearAttention
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.transformer_block import TransformerBlock

WITHIN = 0.15
BACKENDS = {"open": "open", "fused": "sdpa", "window": "window"}
TORCH = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Planned(nn.Module):
    """The model that `Work` describes: words or tensors in, words or tensors out."""

    def __init__(self, work: Work, way: str):
        super().__init__()
        made: dict[str, Any] = {"dtype": TORCH[work.dtype]}
        sizes = (work.embed_dim, work.heads)
        self.words: nn.Embedding | None = nn.Embedding(work.vocab, work.embed_dim, **made) if work.vocab else None
        blocks: list[TransformerBlock] = []
        for _ in range(work.layers):
            if way == "linear":
                mixer = LinearAttention(*sizes, num_kv_heads=work.kv_heads, causal=work.is_causal, **made)
            else:
                mixer = MultiHeadAttention(*sizes, num_kv_heads=work.kv_heads, mask=_mask(work), **made)
            blocks.append(TransformerBlock(work.embed_dim, mixer, **made))
        self.blocks, self.stack = nn.ModuleList(blocks), blocks
        self.norm = nn.LayerNorm(work.embed_dim, **made)
        self.head = nn.Linear(work.embed_dim, work.vocab, bias=False, **made) if work.vocab else None

    def new_caches(self, work: Work) -> list[KVCache]:
        return [block.new_cache(work.batch, work.length) for block in self.stack]

    def forward(self, x: Tensor, caches: list) -> Tensor:
        x = x if self.words is None else self.words(x)
        for block, cache in zip(self.stack, caches):
            x = block(x, cache=cache)
        x = self.norm(x)
        return x if self.head is None else self.head(x)


def _mask(work: Work):
    if work.window is None:
        return causal() if work.is_causal else None
    left = work.window - 1
    return causal() & sliding_window(left=left) if work.is_causal else sliding_window(left, left)


def run(work: Work, way: str) -> None:
    """What is planned, once: a call, a prompt into caches, or two training steps."""
    model = Planned(work, way)
    x = _input(work)
    if work.way == "train":
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            _backward(model, x, work)
            optimizer.step()
        return
    with torch.no_grad():
        nothing = [None] * work.layers
        model(x, model.new_caches(work) if work.way == "generate" else nothing)


def _input(work: Work) -> Tensor:
    if work.vocab:
        return torch.arange(work.tokens).reshape(work.batch, work.length) % work.vocab
    return torch.zeros(work.batch, work.length, work.embed_dim, dtype=TORCH[work.dtype]).fill_(0.5)


def _backward(model: Planned, x: Tensor, work: Work) -> None:
    nothing = [None] * work.layers
    if work.vocab:
        F.cross_entropy(model(x, nothing).flatten(0, 1).float(), x.flatten()).backward()
    else:
        output = model(x, nothing)
        torch.autograd.backward(output, torch.ones_like(output))


def measured(work: Work, way: str) -> float:
    """MiB beyond what was resident before, in a process of its own.

    Raises:
        RuntimeError: The process failed.
    """
    code = f"from regard.bench.planned import main; main({json.dumps(json.dumps(asdict(work)))}, {way!r})"
    return memory.in_own_process(
        code, environment={"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
    )["extra"]


def main(work: str, way: str) -> None:
    """In the process that is measured: warm up on a small one, then measure."""
    torch.set_num_threads(1)
    planned = Work(**json.loads(work))
    if way in BACKENDS and not (way == "window" and planned.way == "generate"):  # a rolling cache chooses by itself
        multi_head.attention = partial(attention, backend=BACKENDS[way])  # pyright: ignore[reportPrivateImportUsage]
    run(replace(planned, batch=1, length=64, layers=1, vocab=planned.vocab and 64, window=planned.window and 8), way)
    print(json.dumps({"extra": memory.extra(lambda: run(planned, way))}))


def grid(seed: int = 1, count: int = 32) -> list[tuple[Work, str]]:
    """Drawn works of 100 MB to 1.5 GB (a process by itself varies by some 10 MB), and the way that each takes."""
    draw = random.Random(seed)
    made: list[tuple[Work, str]] = []
    while len(made) < count:
        way = ("fused", "open", "window", "linear", "fused")[len(made) % 5]
        heads = draw.choice((2, 4, 8))
        work = Work(
            embed_dim=draw.choice((128, 256, 384, 512)),
            heads=heads,
            kv_heads=draw.choice((None, None, heads // 2)),
            batch=draw.choice((1, 2, 4, 8)),
            length=draw.choice((256, 512, 1024, 2048)),
            layers=draw.choice((1, 2, 4, 6)),
            vocab=draw.choice((0, 0, 1000, 8000)),
            dtype=draw.choice(("fp32", "fp32", "bf16")),
            way=("train", "forward", "train", "generate")[len(made) % 4],
            causal=draw.choice((False, True)),
            window=draw.choice((32, 64, 128)) if way == "window" else None,
        )
        if way == "linear" and work.way == "generate":
            work = replace(work, way="forward")
        if 100e6 < walk(work, way).peak < 1.5e9 and work.tokens * work.layers <= 16_384:
            made.append((work, way))
    return made


def row_of(work: Work, way: str) -> dict:
    """Predicted beside measured; the ratio is of the larger to the smaller."""
    predicted, found = walk(work, way).peak / memory.MEBI, measured(work, way)
    apart = max(predicted, found) / min(predicted, found)
    name = f"{way}, {work.way}, {said(work)}"
    row = verdict(name, predicted, found, apart, 1 + WITHIN, sense="at most", against="the measured peak")
    return {**row, "predicted": predicted, "found": found, "error": predicted / found - 1}


def said(work: Work) -> str:
    """The sizes in a few words."""
    parts = [f"{work.batch} x {work.length:,}", f"width {work.embed_dim}", f"{work.heads}/{work.shared} heads"]
    parts += [f"{work.layers} layers", work.dtype, *(["causal"] if work.is_causal else [])]
    parts += [f"{work.vocab:,} words"] if work.vocab else []
    return ", ".join([*parts, *([f"window {work.window}"] if work.window else [])])


def lines(*, quick: bool = False) -> list[Line]:
    """The grid, a line each; `quick`: two of it."""
    return [
        Line(f"{way}, {work.way}, {said(work)}", "the measured peak", lambda _, work=work, way=way: [row_of(work, way)])
        for work, way in grid()[: 2 if quick else None]
    ]


if __name__ == "__main__":
    for work, way in grid()[int(sys.argv[1]) : int(sys.argv[2])]:
        row = row_of(work, way)
        print(f"{row['predicted']:8.0f} {row['found']:8.0f} {row['error']:+7.1%}  {row['name']}", flush=True)
