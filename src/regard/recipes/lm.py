"""Language: the next character, by causal attention; generation with and without a cache gives the same text.

Axes: B pieces of text, T characters, E channels, V different characters.
Characters and hashed n-grams that end at them are embedded; causal blocks with rotary positions predict the next one. The baselines:
the same with 0 layers (n-grams without attention), and the compressor xz.
"""

from __future__ import annotations

import lzma
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError
from regard.core.mask.band import causal, sliding_window
from regard.nn.feed_forward import FeedForward
from regard.nn.kv_cache import KVCache
from regard.nn.linear_attention import LinearAttention
from regard.nn.transformer_block import TransformerBlock
from regard.recipes.data import defaults, hub
from regard.recipes.data.plain_text import read_text
from regard.recipes.encoder import Sizes, mixer
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.order import Order
from regard.recipes.plan import Batch, Work
from regard.recipes.words import UNKNOWN, n_grams

TASK = "lm"
DATA = {"leads": defaults.encyclopedia, "bible": defaults.bible, "people": defaults.peoples_daily_text}


@dataclass(frozen=True)
class Settings:
    """`window` 0: attention over the whole context, else over so many characters; `linear`: linear attention; `layers` 0: no
    attention; `grams`: the longest n-gram."""

    width: int = 128
    layers: int = 3
    heads: int = 4
    context: int = 128
    window: int = 0
    linear: bool = False
    grams: int = 4
    buckets: int = 40_000
    dropout: float = 0.1
    batch: int = 32
    steps: int = 600
    evaluate: int = 100
    lr: float = 0.003
    weight_decay: float = 0.05
    average: float = 0.0
    warmup: int = 40


LONG = {"steps": 4000, "layers": 4, "context": 192, "evaluate": 500, "dropout": 0.15}
VARIANTS = {
    "no attention": {"layers": 0},
    "attention": {},
    "window of 32": {"window": 32},
    "linear attention": {"linear": True},
    "attention, no n-grams": {"grams": 1},
}


class Model(nn.Module):
    """(B, T) ids to (B, T, V) scores of what comes next."""

    def __init__(self, characters: int, settings: Settings):
        super().__init__()
        self.grams, self.buckets = settings.grams, settings.buckets
        width = settings.width
        self.embed = nn.Embedding(characters, width)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.gram_embed = nn.Embedding(settings.buckets, width, padding_idx=0) if settings.grams > 1 else None
        if self.gram_embed is not None:
            nn.init.zeros_(self.gram_embed.weight)
        self.blocks = nn.ModuleList(
            TransformerBlock(
                width,
                _mixer(settings),
                dropout=settings.dropout,
                norm=nn.RMSNorm,
                feed_forward=FeedForward(width, 3 * width),
            )
            for _ in range(settings.layers)
        )
        self.norm, self.dropout = nn.RMSNorm(width), nn.Dropout(settings.dropout)
        self.head = nn.Linear(width, characters, bias=False)

    def forward(self, ids: Tensor, before: Tensor | None = None, caches: list[KVCache] | None = None) -> Tensor:
        """Score.

        Args:
            ids: (B, T).
            before: (B, grams - 1): the ids before these, which their n-grams reach back to; None: the text begins here.
            caches: One per block: then `ids` are new characters behind those in the caches.

        Returns:
            (B, T, V).
        """
        x = self.embed(ids)
        if self.gram_embed is not None:
            whole = ids if before is None else torch.cat([before, ids], 1)
            x = x + self.gram_embed(n_grams(whole, self.grams, self.buckets)[:, -ids.shape[1] :]).sum(2)
        x = self.dropout(x)
        for i, block in enumerate(self.blocks):
            x = block(x, cache=None if caches is None else caches[i])
        return self.head(self.norm(x))

    def new_caches(self, batch: int, length: int) -> list[KVCache]:
        """One cache for each block."""
        return [block.new_cache(batch, length) for block in self.blocks]  # type: ignore[operator]


def _mixer(settings: Settings) -> nn.Module:
    if settings.linear:
        return LinearAttention(settings.width, settings.heads, causal=True)
    mask = causal() & sliding_window(left=settings.window - 1) if settings.window else causal()
    return mixer(Sizes(0, settings.width, 1, settings.heads, "rotary", settings.context, settings.dropout), mask)


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """The text as ids, cut 90 : 5 : 5 in this order; windows of it are the samples.

    The test tells two losses: of the last 5 %, which nothing has seen, and of the last tenth, by which others report theirs and half
    of which chose the checkpoint.
    """
    text = _read(data)
    at, end = int(0.9 * len(text)), int(0.95 * len(text))
    known = [
        "\0",
        "\ufffd",
        *sorted(set(text[:at]) - {"\0", "\ufffd"}),
    ]  # 0: nothing, 1: a character that was never seen
    place = {character: i for i, character in enumerate(known)}
    ids = torch.tensor([place.get(character, UNKNOWN) for character in text])
    train, val, test = ids[:at], ids[at:end], ids[end:]
    T, reach = settings.context, settings.grams - 1
    if len(test) <= T + reach:
        raise DataError(
            f"the text has {len(text):,} characters, and its last 5 % no window of {T}; give more, or --set context=32"
        )
    offsets = torch.arange(reach + T + 1)

    def collate(indices: Tensor) -> Batch:
        return Batch((train[indices[:, None] + offsets],), len(indices) * T)

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        return _loss(model, batch[0], reach)

    torch.manual_seed(seed)
    about = {"settings": vars(settings), "characters": known}
    work = Work(
        model=Model(len(known), settings),
        order=Order(len(train) - T - reach, settings.batch, seed=seed),
        collate=collate,
        loss=loss,
        evaluate=lambda model: {"loss": measured(model, val[:20_000], settings)},
        score="loss",
        higher=False,
    )

    def tested(model) -> dict[str, float]:
        losses = {"loss": measured(model, test, settings), "loss_tenth": measured(model, ids[at:], settings)}
        return losses | cache_gain(model, test[: T // 2].tolist(), T // 2)

    sizes = f"{len(train):,} characters to train, {len(val):,} to choose, {len(test):,} to test; {len(known):,} different ones"
    return Job(work, about, tested, sizes, "loss", baselines=lambda: {"xz, loss": compressed(text[:end], text[end:])})


def measured(model: nn.Module, ids: Tensor, settings: Settings) -> float:
    """Mean loss per character; each is predicted from half a context or more, but for the first."""
    T, reach, device = settings.context, settings.grams - 1, next(model.parameters()).device
    whole = F.pad(ids, (reach, 0), value=0)
    summed, counted = 0.0, 0
    starts = list(range(0, len(ids) - T - 1, T // 2))
    for i in range(0, len(starts), 64):
        windows = torch.stack([whole[s : s + reach + T + 1] for s in starts[i : i + 64]]).to(device)
        before, inside, right = windows[:, :reach], windows[:, reach:-1], windows[:, reach + 1 :]
        scores = model(inside, before if reach else None)[:, T // 2 :]
        summed += float(F.cross_entropy(scores.flatten(0, 1).float(), right[:, T // 2 :].flatten(), reduction="sum"))
        counted += scores.shape[0] * scores.shape[1]
    return summed / counted


@torch.no_grad()
def generate(
    model: Model, start: list[int], count: int, *, cached: bool, temperature: float = 0.0, seed: int = 0, say=None
) -> list[int]:
    """`count` ids behind `start`: the likeliest (temperature 0) or drawn; with a cache each step computes one character only.

    Args:
        say: Called with each new id as it comes.
    """
    device, reach = next(model.parameters()).device, model.grams - 1
    generator = torch.Generator().manual_seed(seed)
    ids = [*start]
    caches = model.new_caches(1, len(start) + count) if cached else None
    for step in range(count):
        new = ids if not cached or step == 0 else ids[-1:]
        before = ([0] * reach + ids[: len(ids) - len(new)])[-reach:] if reach else []
        tensors = (
            torch.tensor([new], device=device),
            torch.tensor([before], dtype=torch.long, device=device) if reach else None,
        )
        scores = model(*tensors, caches)[0, -1].float().cpu()
        scores[:2] = -math.inf
        if temperature:
            chosen = int(torch.multinomial((scores / temperature).softmax(0), 1, generator=generator))
        else:
            chosen = int(scores.argmax())
        ids.append(chosen)
        if say is not None:
            say(chosen)
    return ids[len(start) :]


def cache_gain(model: Model, start: list[int], count: int) -> dict[str, float]:
    """Whether generation with and without a cache is the same, and how many times faster it is."""
    seconds, made = [], []
    for cached in (False, True):
        generate(model, start, 2, cached=cached)
        begun = time.process_time()
        made.append(generate(model, start, count, cached=cached))
        seconds.append(time.process_time() - begun)
    return {"cache_same": float(made[0] == made[1]), "cache_speedup": seconds[0] / max(seconds[1], 1e-9)}


def compressed(before: str, text: str) -> float:
    """Nats per character that xz needs for `text` when it has read `before`."""
    sizes = [len(lzma.compress(part.encode(), preset=6)) for part in (before, before + text)]
    return (sizes[1] - sizes[0]) * 8 * math.log(2) / len(text)


def restore(folder: Path) -> Restored:
    """The model of a run; it goes on with a text, printed as it comes."""
    about = read_config(folder)
    settings, known = Settings(**about["settings"]), about["characters"]
    model = weights_into(Model(len(known), settings), folder)
    place = {character: i for i, character in enumerate(known)}

    def inputs(text: str) -> tuple[tuple[Tensor, ...], list[str]]:
        return (torch.tensor([[place.get(character, UNKNOWN) for character in text]]),), list(text)

    def predict(text: str) -> list[str]:
        def say(i: int) -> None:
            sys.stdout.write(known[i])
            sys.stdout.flush()

        sys.stdout.write(text)
        generate(model, inputs(text)[0][0][0].tolist(), 2 * settings.context, cached=True, temperature=0.7, say=say)
        return [""]

    return Restored(model, predict, inputs)


def _loss(model: nn.Module, windows: Tensor, reach: int) -> Tensor:
    """The summed loss of windows (B, reach + T + 1): what lies before, the context, and one character more."""
    before, inside, right = windows[:, :reach], windows[:, reach:-1], windows[:, reach + 1 :]
    scores = model(inside, before if reach else None)
    return F.cross_entropy(scores.flatten(0, 1), right.flatten(), reduction="sum")


def _read(data: str | None) -> str:
    if data is None:
        return defaults.encyclopedia()
    if hub.is_hub(data):
        return "\n".join(str(row["text"]) for row in hub.rows_of(data)["train"])
    if data in DATA or ("*" not in data and not Path(data).exists()):
        return defaults.named(data, DATA, TASK)
    return read_text(data)
