"""Tags: a label for each word or character. Attention against a recurrent network, both with and without a CRF on top.

Axes: B sentences, T tokens, E channels, K tags, A parts of a token.
Entities are counted whole (seqeval's F1); parts of speech by token (accuracy). Training pieces are cut at `length` tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError, MissingExtraError
from regard.core.mask.sequences import padding
from regard.recipes.data import defaults, hub
from regard.recipes.data.splits import Splits, divide, thinned
from regard.recipes.data.tagged import Tagged, read_tagged, to_bio, with_ends
from regard.recipes.encoder import Encoder, Sizes
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.local import Local
from regard.recipes.order import Order
from regard.recipes.plan import Batch, Work
from regard.recipes.tag_counts import TagCounts
from regard.recipes.tag_order import told, torn
from regard.recipes.token_parts import Parts, hashed_parts, kinds_of_parts

TASK = "tag"
DATA = {"people": defaults.people_entities, "brown": defaults.brown_parts_of_speech}
PAD, UNKNOWN = 0, 1


@dataclass(frozen=True)
class Settings:
    """`model` attention, bilstm or none (each token by itself); `crf`: score whole sequences; `local`: a convolution of that many
    tokens before each block, 0: none; `recurrent`: width of each direction of the LSTM, at 140 as many parameters as two blocks;
    `buckets` of the hashes of parts, 0: no parts; `evidence`: sizes of n-grams whose tags are counted, in `counted` buckets, 0: none;
    `forget`: share of tokens and of parts hidden in training; `limit` 0: all sentences;
    `average`: see `Plan`, 0: none."""

    model: str = "attention"
    crf: bool = True
    local: int = 5
    width: int = 128
    layers: int = 2
    heads: int = 4
    recurrent: int = 140
    position: str = "rotary"
    buckets: int = 60_000
    evidence: int = 0
    counted: int = 300_000
    length: int = 180
    dropout: float = 0.3
    forget: float = 0.1
    limit: int = 0
    batch: int = 32
    steps: int = 800
    evaluate: int = 100
    lr: float = 0.002
    weight_decay: float = 0.02
    clip: float = 5.0
    average: float = 0.0


LONG = {"steps": 3000, "evaluate": 300}
VARIANTS = {
    "each token alone": {"model": "none", "crf": "false", "local": 0},
    "BiLSTM-CRF": {"model": "bilstm", "local": 0},
    "BiLSTM-CRF with convolution": {"model": "bilstm"},
    "attention": {"crf": "false", "local": 0},
    "attention-CRF": {"local": 0},
    "attention-CRF with convolution": {},
    "attention-CRF with convolution, no positions": {"position": "none"},
}


class Tagger(nn.Module):
    """Ids and parts to scores (B, T, K); `crf` holds the scores of neighbouring tags."""

    def __init__(self, about: dict[str, Any]):
        super().__init__()
        s = Settings(**about["settings"])
        if s.model not in ("attention", "bilstm", "none"):
            raise DataError(f"model={s.model} is not one of attention, bilstm, none")
        layers = s.layers if s.model == "attention" else 0
        sizes = Sizes(
            words=len(about["words"]), width=s.width, layers=layers, heads=s.heads, position=s.position, length=s.length,
            dropout=s.dropout, weights=0.0,
        )  # fmt: skip
        self.encoder = Encoder(sizes, local=(lambda: Local(s.width, s.local)) if s.local else None)
        if s.buckets:
            self.encoder.extra = Parts(kinds_of_parts(about["letters"]), s.buckets, s.width)
        self.recurrent = (
            nn.LSTM(s.width, s.recurrent, 1, batch_first=True, bidirectional=True) if s.model == "bilstm" else None
        )
        self.counts = TagCounts(len(about["tags"]), s.evidence, s.counted) if s.evidence else None
        if self.counts is not None:
            self.told = nn.Linear(self.counts.kinds * len(about["tags"]), s.width, bias=False)
            self.gain = nn.Parameter(torch.full((self.counts.kinds, 1), 1 / self.counts.kinds))
        wide = 2 * s.recurrent if s.model == "bilstm" else s.width
        self.dropout, self.head = nn.Dropout(s.dropout), nn.Linear(wide, len(about["tags"]))
        self.crf: Any = _crf(len(about["tags"])) if s.crf else None
        self.tags, self.torn = about["tags"], about.get("torn", [])

    def forward(
        self, ids: Tensor, lengths: Tensor, parts: Tensor, tags: Tensor | None = None, hidden: Tensor | None = None
    ) -> Tensor:
        """Scores (B, T, K); with tags (B, T) the summed loss. `hidden` (B, T), True = a token that is not shown."""
        evidence = None if self.counts is None else self.counts(ids, tags, hidden)
        ids = ids if hidden is None else ids.masked_fill(hidden, UNKNOWN)
        added = None if evidence is None else self.told(evidence.flatten(2))
        x = self.encoder(ids, mask=padding(lengths=lengths), extra=parts, added=added)
        if self.recurrent is not None:
            rows = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            made = self.recurrent(rows)[0]
            x = nn.utils.rnn.pad_packed_sequence(made, batch_first=True, total_length=ids.shape[1])[0]
        scores = self.head(self.dropout(x))
        if evidence is not None:
            scores = scores + (self.gain * evidence).sum(2)
        if tags is None:
            return scores
        keep = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        if self.crf is None:
            return F.cross_entropy(scores[keep], tags[keep], reduction="sum")
        return -self.crf(scores.float(), tags, mask=keep, reduction="sum")

    @torch.no_grad()
    def decode(self, ids: Tensor, lengths: Tensor, parts: Tensor) -> list[list[int]]:
        """The best tags of each sentence; with a CRF the best that can stand side by side."""
        scores = self(ids, lengths, parts).float()
        if self.crf is None:
            return [row[:n] for row, n in zip(scores.argmax(-1).tolist(), lengths.tolist())]
        keep = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        return told(self.crf, self.tags, self.torn).decode(scores, mask=keep)


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """Sentences, vocabulary, model and work."""
    found = _read(data)
    train = thinned(found.train, settings.limit or None, lambda row: " ".join(row.tokens))
    counts: dict[str, int] = {}
    for row in train:
        for token in row.tokens:
            counts[token] = counts.get(token, 0) + 1
    known = ["[PAD]", "[UNK]", *sorted(token for token, n in counts.items() if n > 1)]
    pieces = [piece for row in train for piece in _pieces(row, settings.length)]
    ends = [with_ends(piece.tags) for piece in pieces]
    tags = sorted({tag for row in ends for tag in row})
    strange = sorted(
        {tag for part in (found.val, found.test) for row in part for tag in with_ends(row.tags)} - set(tags)
    )
    letters = sum(len(token) > 1 for token in known[2:200])
    about: dict[str, Any] = {
        "settings": vars(settings), "words": known, "tags": tags, "letters": letters > 50, "unseen": strange, "torn": torn(ends),
        "entities": any(tag.startswith(("B-", "S-")) for tag in tags),
    }  # fmt: skip
    place, number = {token: i for i, token in enumerate(known)}, {tag: i for i, tag in enumerate(tags)}
    rows = [_features(row.tokens, place, about) for row in pieces]
    right = [torch.tensor([number[tag] for tag in row]) for row in ends]

    def collate(indices: Tensor) -> Batch:
        chosen = indices.tolist()
        ids, lengths, parts = _stack([rows[i] for i in chosen])
        hidden = (torch.rand(ids.shape) < settings.forget) & (ids != PAD)
        parts = parts.masked_fill(torch.rand(parts.shape) < settings.forget, PAD)
        answers = nn.utils.rnn.pad_sequence([right[i] for i in chosen], batch_first=True)
        return Batch((ids, lengths, parts, answers, hidden), len(chosen))

    torch.manual_seed(seed)
    model = Tagger(about)
    if model.counts is not None:
        model.counts.count([ids for ids, _ in rows], right)
    work = Work(
        model=model,
        order=Order(len(rows), min(settings.batch, len(rows)), seed=seed, lengths=[len(row.tokens) for row in pieces]),
        collate=collate,
        loss=lambda model, batch: model(*batch),
        evaluate=lambda model: measured(model, found.val, about, place),
        score="f1" if about["entities"] else "accuracy",
    )
    sizes = f"{len(train):,} sentences to train, {len(found.val):,} to choose, {len(found.test):,} to test; {len(known):,} words, {len(tags)} tags"
    return Job(
        work,
        about,
        lambda model: measured(model, found.test, about, place),
        sizes,
        work.score,
        baselines=lambda: most_frequent(found),
    )


def measured(model: Any, part: list[Tagged], about: dict[str, Any], place: dict[str, int]) -> dict[str, float]:
    """Accuracy by token; for entities also precision, recall and F1 of whole ones, and F1 of shorter and longer sentences."""
    length, device = about["settings"]["length"], next(model.parameters()).device
    pieces = [((i, k), piece) for i, row in enumerate(part) for k, piece in enumerate(_pieces(row, length))]
    pieces.sort(key=lambda each: len(each[1].tokens))
    tagged: dict[tuple[int, int], list[str]] = {}  # by number of the sentence and of the piece
    for at in range(0, len(pieces), 64):
        block = pieces[at : at + 64]
        inputs = _stack([_features(piece.tokens, place, about) for _, piece in block])
        for (key, _), best in zip(block, model.decode(*(x.to(device) for x in inputs))):
            tagged[key] = _named(best, about)
    made: list[list[str]] = [[] for _ in part]
    for i, k in sorted(tagged):
        made[i] += tagged[i, k]
    right = [list(row.tags) for row in part]
    same = sum(a == b for x, y in zip(made, right) for a, b in zip(x, y))
    numbers = {"accuracy": 100 * same / sum(map(len, right))}
    return numbers | (_entities(made, right) if about["entities"] else {})


def _entities(made: list[list[str]], right: list[list[str]]) -> dict[str, float]:
    import seqeval.metrics

    library: Any = seqeval.metrics
    middle = sorted(map(len, right))[len(right) // 2]
    parts = {"f1": lambda n: True, "f1_short": lambda n: n <= middle, "f1_long": lambda n: n > middle}
    numbers = {
        "precision": 100 * float(library.precision_score(right, made, zero_division=0)),
        "recall": 100 * float(library.recall_score(right, made, zero_division=0)),
    }
    for name, wanted in parts.items():
        pairs = [(a, b) for a, b in zip(right, made) if wanted(len(a))]
        if pairs:
            numbers[name] = 100 * float(library.f1_score([a for a, _ in pairs], [b for _, b in pairs], zero_division=0))
    return numbers


def most_frequent(found: Splits[Tagged]) -> dict[str, float]:
    """Each token with the tag that it has most often in training; unknown ones with the tag that is most frequent of all."""
    counts: dict[str, dict[str, int]] = {}
    every: dict[str, int] = {}
    for row in found.train:
        for token, tag in zip(row.tokens, row.tags):
            seen = counts.setdefault(token, {})
            seen[tag], every[tag] = seen.get(tag, 0) + 1, every.get(tag, 0) + 1
    usual = max(every, key=lambda tag: every[tag])
    best = {token: max(seen, key=lambda tag: seen[tag]) for token, seen in counts.items()}
    made = [[best.get(token, usual) for token in row.tokens] for row in found.test]
    same = sum(a == b for row, tags in zip(found.test, made) for a, b in zip(row.tags, tags))
    numbers = {"most frequent tag, accuracy": 100 * same / sum(len(row.tags) for row in found.test)}
    if any(tag.startswith("B-") for tag in every):
        numbers["most frequent tag, f1"] = _entities(made, [list(row.tags) for row in found.test])["f1"]
    return numbers


def restore(folder: Path) -> Restored:
    """The model of a run, and the tags of a sentence: words between spaces, or characters."""
    about = read_config(folder)
    model, place = weights_into(Tagger(about), folder), {token: i for i, token in enumerate(about["words"])}

    def tokens_of(text: str) -> list[str]:
        return text.split() if about["letters"] else [c for c in text if not c.isspace()]

    def inputs(text: str) -> tuple[tuple[Tensor, ...], list[str]]:
        tokens = tokens_of(text)[: about["settings"]["length"]]
        if not tokens:
            raise DataError("there is nothing to tag: the text is empty")
        return _stack([_features(tokens, place, about)]), tokens

    def predict(text: str) -> list[str]:
        tensors, tokens = inputs(text)
        return [f"{token}\t{tag}" for token, tag in zip(tokens, _named(model.decode(*tensors)[0], about))]

    return Restored(model, predict, inputs)


def _named(best: list[int], about: dict[str, Any]) -> list[str]:
    """Tags without the ends of entities, as the data have them."""
    return list(to_bio([tuple(about["tags"][k] for k in best)], "the model")[0])


def _pieces(row: Tagged, length: int) -> list[Tagged]:
    """A sentence in pieces of at most `length` tokens."""
    return [Tagged(row.tokens[i : i + length], row.tags[i : i + length]) for i in range(0, len(row.tokens), length)]


def _features(tokens: Sequence[str], place: dict[str, int], about: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Ids (T,), and hashes of the parts of each token (T, A)."""
    ids, buckets = torch.tensor([place.get(token, UNKNOWN) for token in tokens]), about["settings"]["buckets"]
    if not buckets:
        return ids, ids.new_zeros(len(ids), 0)
    return ids, hashed_parts(tokens, about["letters"], buckets)


def _stack(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    pad = nn.utils.rnn.pad_sequence
    return (
        pad([i for i, _ in rows], batch_first=True),
        torch.tensor([len(i) for i, _ in rows]),
        pad([a for _, a in rows], batch_first=True),
    )


def _crf(tags: int) -> Any:
    try:
        from torchcrf import CRF
    except ImportError as error:
        raise MissingExtraError('a CRF needs pytorch-crf: pip install "regard[train]", or --set crf=false') from error
    return CRF(tags, batch_first=True)


def _read(data: str | None) -> Splits[Tagged]:
    if data is None:
        return defaults.people_entities()
    if hub.is_hub(data):
        samples = {
            split: [Tagged(tuple(row["tokens"]), tuple(map(str, row["ner_tags"]))) for row in rows]
            for split, rows in hub.rows_of(data).items()
        }
        return divide(samples, lambda row: " ".join(row.tokens), data)
    if data in DATA or ("*" not in data and not Path(data).exists()):
        return defaults.named(data, DATA, TASK)
    return read_tagged(data)
