"""Texts: one label each. Do heads and positions matter here, and does attention beat counting words?

Axes: B texts, T tokens, E channels, K classes.
The model embeds words (characters, for Chinese), or takes a frozen model's vectors of them, and mixes them with self-attention. A
share of attention for each token weighs what is summed: the mixed vectors, and the evidence of the n-grams that end there, counted by
class. The baselines: the same without attention, and TF-IDF with logistic regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError
from regard.core.mask.sequences import documents, padding
from regard.recipes import words
from regard.recipes.data import defaults, hub
from regard.recipes.data.labelled import Labelled, finish, from_records, read_labelled
from regard.recipes.data.splits import Splits, thinned
from regard.recipes.encoder import Encoder, Sizes
from regard.recipes.evidence import Evidence
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.order import Order, padded
from regard.recipes.plan import Batch, Work
from regard.recipes.pretrained import WIDTH, Frozen

TASK = "text"
DATA = {"movies": defaults.movie_sentences, "reviews": defaults.chinese_reviews}
BATCHING = ("bucket", "pad", "pack")
POOLS = ("attention", "mean")


@dataclass(frozen=True)
class Settings:
    """`heads` 1, 2, 4, 8; `position` none, sinusoidal, learned, rotary, alibi, relative; `batching` bucket, pad or pack; `layers` 0
    with `pool` mean: no attention; `pool` attention or mean; `pretrained` none or minilm; `grams` that are embedded, in `buckets`;
    `evidence`: sizes of n-grams that are counted by class, in `counted` buckets, 0: none; what is learned of it moves at `slow` times
    `lr`; `forget`: share of words hidden in training; `limit` 0: all texts."""

    heads: int = 4
    layers: int = 1
    width: int = 64
    position: str = "rotary"
    pool: str = "attention"
    pretrained: str = "none"
    batching: str = "bucket"
    length: int = 256
    grams: int = 1
    buckets: int = 50_000
    evidence: int = 2
    counted: int = 500_000
    slow: float = 0.3
    vocabulary: int = 30_000
    dropout: float = 0.3
    forget: float = 0.15
    limit: int = 0
    batch: int = 64
    steps: int = 400
    evaluate: int = 50
    lr: float = 0.003
    weight_decay: float = 0.05
    clip: float = 1.0
    average: float = 0.0


LONG = {"steps": 1400, "length": 1000, "evaluate": 350, "counted": 1_500_000}
VARIANTS = {
    "no attention": {"layers": 0, "pool": "mean"},
    "no evidence": {"evidence": 0},
    "1 head": {"heads": 1},
    "2 heads": {"heads": 2},
    "4 heads": {},
    "8 heads": {"heads": 8},
    "no positions": {"position": "none"},
    "sinusoidal": {"position": "sinusoidal"},
    "learned": {"position": "learned"},
    "ALiBi": {"position": "alibi"},
    "packed rows": {"batching": "pack"},
    "padded to the longest": {"batching": "pad"},
}


class Classifier(nn.Module):
    """(B, T) ids to (B, K) scores: the encoder, a share of attention for each token, and by it the mean of vectors and of evidence.

    Args:
        sizes: Of the encoder.
        classes: K.
        evidence: Naive Bayes' table of n-grams; None: none.
        pool: "attention": shares are learned, equal at the start; "mean": they stay equal.
        given: V, channels of a frozen model's vectors; 0: none.
    """

    def __init__(self, sizes: Sizes, classes: int, *, evidence: Evidence | None, pool: str, given: int):
        super().__init__()
        self.encoder = Encoder(sizes)
        self.given = nn.Sequential(nn.LayerNorm(given), nn.Linear(given, sizes.width)) if given else None
        self.evidence = evidence
        self.pool = nn.Linear(sizes.width, 1, bias=False) if pool == "attention" else None
        if self.pool is not None:
            nn.init.zeros_(self.pool.weight)
        self.gain = nn.Parameter(torch.ones(())) if evidence is not None else None
        self.dropout = nn.Dropout(sizes.dropout)
        self.head = nn.Linear(sizes.width, classes)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor,
        vectors: Tensor | None = None,
        *,
        owner: Tensor | None = None,
        positions: Tensor | None = None,
        own: Tensor | None = None,
    ) -> Tensor:
        """Classify.

        Args:
            ids: (B, T), padded; or (1, all tokens): all texts in one row without padding.
            lengths: (B,).
            vectors: The frozen model's, in the form of `ids` with V channels.
            owner, positions: (1, all tokens) each, for one row: the number of each token's text, and its place in it.
            own: (B,) the classes of training texts, which are taken out of the counts of evidence.

        Returns:
            (B, K), the same for both forms.
        """
        added = None if self.given is None or vectors is None else self.given(vectors.to(self.head.weight.dtype))
        if owner is not None and positions is not None:
            x = self.encoder(ids, mask=documents(owner), positions=positions, added=added)
            x, ids = (_unpacked(y, lengths, owner, positions) for y in (x, ids))
        else:
            x = self.encoder(ids, mask=padding(lengths=lengths), added=added)  # (B, T, E)
        keep = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]  # (B, T)
        scores = x.new_zeros(ids.shape) if self.pool is None else self.pool(x)[..., 0]
        share = scores.masked_fill(~keep, float("-inf")).softmax(1)[..., None]  # (B, T, 1)
        made = self.head(self.dropout((x * share).sum(1)))
        if self.evidence is None or self.gain is None:
            return made
        return made + self.gain * lengths[:, None].sqrt() * (self.evidence(ids, own) * share).sum(1)


def network(about: dict) -> Classifier:
    """The model of a config."""
    settings = Settings(**about["settings"])
    sizes = Sizes(
        words=about["words"], width=settings.width, layers=settings.layers, heads=settings.heads, position=settings.position,
        length=settings.length, dropout=settings.dropout, grams=settings.grams, buckets=settings.buckets,
    )  # fmt: skip
    classes = len(about["classes"])
    evidence = Evidence(classes, settings.evidence, settings.counted) if settings.evidence else None
    given = 0 if settings.pretrained == "none" else WIDTH
    return Classifier(sizes, classes, evidence=evidence, pool=settings.pool, given=given)


class Part(NamedTuple):
    """Texts as the model takes them: rows of ids, the frozen model's vectors of each row or None, the classes."""

    rows: list[list[int]]
    vectors: list[Tensor] | None
    labels: Tensor

    def batch(self, indices: list[int]) -> tuple[Tensor, ...]:
        """(B, T) ids, (B,) lengths, and (B, T, V) vectors where there are any."""
        ids, lengths = padded([self.rows[i] for i in indices])
        if self.vectors is None:
            return ids, lengths
        return ids, lengths, nn.utils.rnn.pad_sequence([self.vectors[i] for i in indices], batch_first=True)


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """Texts, tokenizer, model and work."""
    if settings.batching not in BATCHING or settings.pool not in POOLS:
        raise DataError(
            f"batching={settings.batching} is one of {', '.join(BATCHING)}, and pool={settings.pool} one of {', '.join(POOLS)}"
        )
    found = _read(data)
    found = found._replace(train=thinned(found.train, settings.limit or None, lambda one: one.text))
    frozen = None if settings.pretrained == "none" else Frozen(settings.pretrained)
    texts = [one.text for one in found.train]
    tokenizer = words.learn(texts, most=settings.vocabulary) if frozen is None else frozen.tokenizer
    classes = sorted({one.label for one in found.train})
    about = {"settings": vars(settings), "classes": classes, "words": tokenizer.get_vocab_size()}

    def part_of(samples: list[Labelled]) -> Part:
        rows = words.encode(tokenizer, [one.text for one in samples], settings.length)
        vectors = None if frozen is None else frozen.vectors(rows)
        return Part(rows, vectors, torch.tensor([classes.index(one.label) for one in samples]))

    train, val, test = (part_of(samples) for samples in found)
    lengths = [len(row) for row in train.rows]

    def collate(indices: Tensor) -> Batch:
        ids, counts, *vectors = train.batch(indices.tolist())
        longer = settings.length - ids.shape[1] if settings.batching == "pad" else 0
        ids, vectors = F.pad(ids, (0, longer)), [F.pad(x, (0, 0, 0, longer)) for x in vectors]
        hidden = (torch.rand(ids.shape) < settings.forget) & (ids != words.PAD)
        vectors = [x.masked_fill(hidden[..., None], 0) for x in vectors]
        return Batch((ids.masked_fill(hidden, words.UNKNOWN), counts, *vectors, train.labels[indices]), len(indices))

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        *inputs, right = batch
        given = {"own": right} if settings.evidence else {}
        if settings.batching == "pack":
            inputs, where = _packed(*inputs)
            given |= where
        scores = model(*inputs, **given)
        return F.cross_entropy(scores, right, reduction="sum", label_smoothing=0.05)

    torch.manual_seed(seed)
    model = network(about)
    if model.evidence is not None:
        model.evidence.count(train.rows, train.labels.tolist())
    near = lengths if settings.batching == "bucket" else None
    work = Work(
        model=model,
        order=Order(len(lengths), min(settings.batch, len(lengths)), seed=seed, lengths=near),
        collate=collate,
        loss=loss,
        evaluate=lambda model: measured(model, val),
        score="accuracy",
        groups=_groups(model, settings),
    )
    return Job(
        work, about, lambda model: measured(model, test),
        f"{len(lengths):,} texts to train, {len(found.val):,} to choose, {len(found.test):,} to test; {about['words']:,} words",
        "accuracy", {words.FILE: words.saved(tokenizer)}, lambda: counted_words(found),
    )  # fmt: skip


def measured(model: nn.Module, part: Part) -> dict[str, float]:
    """Accuracy in percent and the loss; similar lengths together."""
    from torchmetrics.functional.classification import multiclass_accuracy

    device = next(model.parameters()).device
    order = sorted(range(len(part.rows)), key=lambda i: len(part.rows[i]))
    scores = []
    for i in range(0, len(order), 128):
        scores.append(model(*(x.to(device) for x in part.batch(order[i : i + 128]))).float().cpu())
    made, right = torch.cat(scores), part.labels[torch.tensor(order)]
    accuracy = multiclass_accuracy(made, right, num_classes=made.shape[1], average="micro")
    return {"accuracy": 100 * float(accuracy), "loss": float(F.cross_entropy(made, right))}


def counted_words(found: Splits[Labelled]) -> dict[str, float]:
    """Test accuracy of TF-IDF over n-grams with logistic regression, on the same split."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    characters = words.by_characters(one.text for one in found.train)
    results = {}
    for name, sizes in (("TF-IDF of single words", (1, 1)), ("TF-IDF with pairs", (1, 2))):
        vectors = TfidfVectorizer(
            analyzer="char" if characters else "word", ngram_range=sizes, sublinear_tf=True, min_df=2
        )
        x = vectors.fit_transform([one.text for one in found.train])
        model = LogisticRegression(C=10.0, max_iter=300).fit(x, [one.label for one in found.train])
        results[name] = 100 * float(
            model.score(vectors.transform([one.text for one in found.test]), [one.label for one in found.test])
        )
    return results


def restore(folder: Path) -> Restored:
    """The model of a run, and what it says about a text."""
    about = read_config(folder)
    settings = Settings(**about["settings"])
    model, tokenizer = weights_into(network(about), folder), words.load(folder)
    frozen = None if settings.pretrained == "none" else Frozen(settings.pretrained)

    def inputs(text: str) -> tuple[tuple[Tensor, ...], list[str]]:
        rows = words.encode(tokenizer, [text], settings.length)
        part = Part(rows, None if frozen is None else frozen.vectors(rows), torch.zeros(1))
        return part.batch([0]), [tokenizer.id_to_token(i) for i in rows[0]]

    def predict(text: str) -> list[str]:
        with torch.no_grad():
            shares = model(*inputs(text)[0])[0].softmax(0)
        return [
            f"{about['classes'][i]}  {100 * float(shares[i]):.1f} %" for i in shares.argsort(descending=True).tolist()
        ]

    return Restored(model, predict, inputs)


def _read(data: str | None) -> Splits[Labelled]:
    if data is None:
        return defaults.movie_sentences()
    if hub.is_hub(data):
        return finish(
            {split: from_records(rows, data) for split, rows in hub.rows_of(data).items() if split != "unsupervised"},
            data,
        )
    if data in DATA or ("*" not in data and not Path(data).exists()):
        return defaults.named(data, DATA, TASK)
    return read_labelled(data)


def _packed(ids: Tensor, lengths: Tensor, *vectors: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Padded rows as one row, (1, all tokens, ...), with the number of the text of each token and its place in it."""
    owner, positions = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).nonzero(as_tuple=True)
    row = (ids[owner, positions][None], lengths, *(x[owner, positions][None] for x in vectors))
    return row, {"owner": owner[None], "positions": positions[None]}


def _unpacked(x: Tensor, lengths: Tensor, owner: Tensor, positions: Tensor) -> Tensor:
    """(1, all tokens, ...) to (B, T, ...), padded with 0."""
    wide = x.new_zeros(len(lengths), int(lengths.max()), *x.shape[2:])
    return wide.index_put((owner[0], positions[0]), x[0])


def _groups(model: Classifier, settings: Settings) -> list[dict[str, Any]] | None:
    """The table of evidence moves slower than the rest: counts started it."""
    if model.evidence is None:
        return None
    own = set(model.evidence.parameters())
    return [
        {"params": [p for p in model.parameters() if p not in own]},
        {"params": list(own), "lr": settings.slow * settings.lr},
    ]
