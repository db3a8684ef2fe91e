"""Translation: an encoder, and a decoder that attends to it; greedy and beam search, and where each word looked.

Axes: B pairs, S tokens of the source, T of the target, E channels, V pieces of words.
Pieces are learned by byte-pair encoding over both languages. Beam search runs on a cache. The baseline copies the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError
from regard.core.mask.band import causal
from regard.core.mask.sequences import padding
from regard.core.position import Sinusoidal
from regard.nn.feed_forward import FeedForward
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.transformer_block import TransformerBlock
from regard.recipes import words
from regard.recipes.data import defaults, hub
from regard.recipes.data.parallel_text import Pair, read_pairs
from regard.recipes.data.splits import Splits, divide, thinned
from regard.recipes.encoder import Sizes, mixer
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.order import Order, padded
from regard.recipes.plan import Batch, Work

TASK = "translate"
DATA = {"manuals": defaults.manuals}
BEGIN, END = 2, 3


@dataclass(frozen=True)
class Settings:
    """`source` and `target`: the languages, as the file names have them; `beam` 1: greedy; `penalty`: of length, see `search`;
    `length`: longer pairs are left out of training; `limit` 0: all pairs."""

    source: str = "en"
    target: str = "de"
    width: int = 192
    layers: int = 2
    heads: int = 4
    length: int = 50
    pieces: int = 6000
    beam: int = 4
    penalty: float = 1.0
    dropout: float = 0.15
    limit: int = 0
    batch: int = 64
    steps: int = 1500
    evaluate: int = 300
    lr: float = 0.0015
    weight_decay: float = 0.01
    average: float = 0.0
    warmup: int = 150


LONG = {"steps": 8000, "layers": 3, "width": 256, "evaluate": 1000}
VARIANTS = {"1 head": {"heads": 1}, "4 heads": {}, "8 heads": {"heads": 8}, "1 layer": {"layers": 1}}


class Translator(nn.Module):
    """Source (B, S) and target so far (B, T) to the scores of the next pieces (B, T, V)."""

    def __init__(self, s: Settings, known: int):
        super().__init__()
        E = s.width
        self.embed = nn.Embedding(known, E, padding_idx=words.PAD)
        nn.init.normal_(self.embed.weight, std=E**-0.5)
        self.places = Sinusoidal(E)
        sizes = Sizes(known, E, s.layers, s.heads, "none", s.length, s.dropout)

        def block(decodes: bool) -> TransformerBlock:
            cross = MultiHeadAttention(E, s.heads, dropout=s.dropout / 2) if decodes else None
            own = mixer(sizes, causal() if decodes else None)
            return TransformerBlock(E, own, cross=cross, feed_forward=FeedForward(E, 3 * E), dropout=s.dropout)

        self.encoder = nn.ModuleList(block(False) for _ in range(s.layers))
        self.decoder = nn.ModuleList(block(True) for _ in range(s.layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(E), nn.LayerNorm(E)
        self.dropout = nn.Dropout(s.dropout)

    def encode(self, source: Tensor) -> Tensor:
        """(B, S) to (B, S, E)."""
        x = self._embedded(source, 0)
        for block in self.encoder:
            x = block(x, mask=padding(source != words.PAD))
        return self.encoder_norm(x)

    def decode(
        self, target: Tensor, encoded: Tensor, seen: Tensor, caches: list | None = None, first: int = 0
    ) -> Tensor:
        """Target (B, T), where the first stands at `first`; encoded (B, S, E) with its real tokens (B, S); to (B, T, V)."""
        x = self._embedded(target, first)
        for i, block in enumerate(self.decoder):
            x = block(x, encoded, context_mask=padding(seen), cache=None if caches is None else caches[i])
        return F.linear(self.decoder_norm(x), self.embed.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source != words.PAD)

    def _embedded(self, ids: Tensor, first: int) -> Tensor:
        where = torch.arange(first, first + ids.shape[1], device=ids.device)[None]
        x = self.embed(ids) * self.embed.weight.shape[1] ** 0.5
        return self.dropout(x + self.places.encode(where, dtype=x.dtype))


@torch.no_grad()
def search(model: Translator, source: Tensor, beam: int, longest: int, penalty: float = 1.0) -> list[list[int]]:
    """The best targets of sources by beam search with a cache: each step computes one position of what is still open.

    Args:
        model: In eval mode.
        source: (B, S).
        beam: How many beginnings of each target are kept; 1: greedy, the likeliest piece at each step.
        longest: Most pieces of a target.
        penalty: A target of n pieces, the end too, scores log-probability / n ** penalty; 0: short ones win.

    Returns:
        For each source the pieces without begin and end. A source is done when `beam` of its targets have ended.
    """
    device, V, open_ = (
        source.device,
        len(model.embed.weight),
        list(range(len(source))),
    )  # open_[i]: whose rows block i has
    encoded, seen = model.encode(source).repeat_interleave(beam, 0), (source != words.PAD).repeat_interleave(beam, 0)
    caches = [block.new_cache(len(encoded), longest) for block in model.decoder]  # type: ignore[operator]
    ids = torch.full((len(encoded), 1), BEGIN, device=device)
    scores = torch.full((len(source), beam), -torch.inf, device=device)
    scores[:, 0] = 0.0  # all begin alike: only one of them counts
    ended: list[list[tuple[float, list[int]]]] = [[] for _ in open_]
    for n in range(1, longest + 1):
        new = model.decode(ids[:, -1:], encoded, seen, caches, n - 1)[:, 0].float().log_softmax(-1)  # (rows, V)
        new[:, [words.PAD, words.UNKNOWN, BEGIN]] = -torch.inf
        value, place = (scores[..., None] + new.view(len(open_), beam, V)).flatten(1).topk(2 * beam)
        row, piece = torch.arange(len(open_), device=device)[:, None] * beam + place // V, place % V
        for i, k in ((piece == END) & (value > -torch.inf))[:, :beam].nonzero().tolist():
            ended[open_[i]].append((float(value[i, k]) / n**penalty, ids[row[i, k], 1:].tolist()))
        go_on = [i for i, b in enumerate(open_) if len(ended[b]) < beam]
        if not go_on:
            break
        scores, best = value.masked_fill(piece == END, -torch.inf)[go_on].topk(beam)
        row, piece = row[go_on].gather(1, best).flatten(), piece[go_on].gather(1, best).flatten()
        ids, encoded, seen = torch.cat([ids[row], piece[:, None]], 1), encoded[row], seen[row]
        for cache in caches:
            cache.reorder(row)
        open_ = [open_[i] for i in go_on]
    for i, b in enumerate(open_):
        ended[b] = ended[b] or [(0.0, ids[i * beam, 1:].tolist())]  # nothing has ended: the likeliest beginning
    return [max(found)[1] for found in ended]


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """Pairs, pieces of words, model and work."""
    found = _read(settings, data)
    train = thinned(found.train, settings.limit or None, lambda pair: pair.source)
    tokenizer = words.learn_pieces([text for pair in train for text in pair], most=settings.pieces)
    about = {
        "settings": vars(settings),
        "words": tokenizer.get_vocab_size(),
        "wide": words.by_characters(p.target for p in train),
    }
    left, right = ([e.ids for e in tokenizer.encode_batch([pair[i] for pair in train])] for i in (0, 1))
    kept = [i for i in range(len(train)) if 0 < len(left[i]) <= settings.length and 0 < len(right[i]) < settings.length]
    if not kept:
        raise DataError(f"every pair has more than {settings.length} pieces; --set length={2 * settings.length}")
    left, right = [left[i] for i in kept], [right[i] for i in kept]

    def collate(indices: Tensor) -> Batch:
        chosen = indices.tolist()
        source, _ = padded([left[i] for i in chosen])
        target, lengths = padded([[BEGIN, *right[i], END] for i in chosen])
        return Batch((source, target), float((lengths - 1).sum()))

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        source, target = batch
        scores = model(source, target[:, :-1]).float()  # not in half precision: a small rate adds up over many pieces
        return F.cross_entropy(
            scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=words.PAD, reduction="sum", label_smoothing=0.1
        )

    torch.manual_seed(seed)
    model = Translator(settings, about["words"])
    work = Work(
        model=model,
        order=Order(len(left), min(settings.batch, len(left)), seed=seed, lengths=_alike(left, right)),
        collate=collate,
        loss=loss,
        evaluate=lambda model: {"bleu": measured(model, tokenizer, found.val[:200], about, beam=1)},
        score="bleu",
    )

    def tested(model: Any) -> dict[str, float]:
        return {
            name: measured(model, tokenizer, found.test, about, beam=b)
            for name, b in (("greedy", 1), ("bleu", settings.beam))
        }

    sizes = (
        f"{len(left):,} pairs to train ({len(train) - len(left)} left out: more than {settings.length} pieces), "
        f"{len(found.val):,} to choose, {len(found.test):,} to test; {about['words']:,} pieces of words"
    )

    def copied() -> dict[str, float]:
        sources, targets = [pair.source for pair in found.test], [pair.target for pair in found.test]
        return {"copy of the source, bleu": bleu(sources, targets, about["wide"])}

    return Job(work, about, tested, sizes, "bleu", {words.FILE: words.saved(tokenizer)}, copied)


def _alike(left: list[list[int]], right: list[list[int]]) -> list[int]:
    """Keys by which pairs are sorted into batches: the longer side, then the shorter one. Sorting by the target alone pads a tenth more."""
    most = 1 + max(map(len, left + right))
    return [max(len(a), len(b)) * most + min(len(a), len(b)) for a, b in zip(left, right)]


def measured(model: Any, tokenizer: Any, pairs: list[Pair], about: dict[str, Any], *, beam: int) -> float:
    """BLEU of the translations of all pairs, similar lengths together."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    device, made = next(model.parameters()).device, [""] * len(pairs)
    for at in range(0, len(order), 64 // beam):
        block = order[at : at + 64 // beam]
        rows = [
            e.ids[: about["settings"]["length"]] or [words.UNKNOWN]
            for e in tokenizer.encode_batch([pairs[i].source for i in block])
        ]
        source = padded(rows)[0].to(device)
        longest = 10 + 2 * source.shape[1]
        for i, ids in zip(block, search(model, source, beam, longest, about["settings"]["penalty"])):
            made[i] = tokenizer.decode(ids)
    return bleu(made, [pair.target for pair in pairs], about["wide"])


def bleu(made: list[str], right: list[str], wide: bool) -> float:
    """sacrebleu's corpus BLEU; by characters for Chinese."""
    from sacrebleu import corpus_bleu

    return float(corpus_bleu(made, [right], tokenize="zh" if wide else "13a").score)


def restore(folder: Path) -> Restored:
    """The model of a run: it translates a sentence and says which piece of the source each piece looked at most."""
    about = read_config(folder)
    settings = Settings(**about["settings"])
    model, tokenizer = weights_into(Translator(settings, about["words"]), folder), words.load(folder)

    def source_of(text: str) -> Tensor:
        ids = tokenizer.encode(text).ids[: settings.length]
        if not ids:
            raise DataError("there is nothing to translate: the text is empty")
        return torch.tensor([ids])

    def predict(text: str) -> list[str]:
        source = source_of(text)
        ids = search(model, source, settings.beam, 10 + 2 * source.shape[1], settings.penalty)[0]
        weights = alignment(model, source, torch.tensor([[BEGIN, *ids]]))
        pieces = [[tokenizer.decode([i]).strip() or "_" for i in row] for row in (source[0].tolist(), ids)]
        looked = "  ".join(f"{piece}<-{pieces[0][k]}" for piece, k in zip(pieces[1], weights.argmax(-1).tolist()))
        return [tokenizer.decode(ids), looked]

    def inputs(text: str) -> tuple[tuple[Tensor, ...], list[str]]:
        source = source_of(text)
        ids = search(model, source, 1, 10 + 2 * source.shape[1])[0]
        return (source, torch.tensor([[BEGIN, *ids]])), [tokenizer.id_to_token(i) for i in source[0].tolist()]

    return Restored(model, predict, inputs)


@torch.no_grad()
def alignment(model: Translator, source: Tensor, target: Tensor) -> Tensor:
    """(T, S): how much each piece of the target attends to each of the source, in the last layer, the mean over heads."""
    encoded, seen = model.encode(source), source != words.PAD
    x = model._embedded(target, 0)
    last: Any = model.decoder[-1]
    for block in list(model.decoder)[:-1]:
        x = block(x, encoded, context_mask=padding(seen))
    x = x + last.mixer(last.mixer_norm(x))
    return last.cross.inspect(last.cross_norm(x), encoded, mask=padding(seen)).weights[0].mean(0)


def _read(settings: Settings, data: str | None) -> Splits[Pair]:
    if data is None:
        return defaults.manuals()
    if hub.is_hub(data):
        rows = {split: [row["translation"] for row in part] for split, part in hub.rows_of(data).items()}
        pairs = {
            split: [Pair(row[settings.source], row[settings.target]) for row in part] for split, part in rows.items()
        }
        return divide(pairs, lambda pair: pair.source, data)
    if data in DATA or ("*" not in data and not Path(data).exists()):
        return defaults.named(data, DATA, TASK)
    return read_pairs(data, settings.source, settings.target)
