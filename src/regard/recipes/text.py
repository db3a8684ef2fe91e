"""Texts: one label each. Do heads and positions matter here, and does attention beat counting words?

Axes: B texts, T tokens, E channels, K classes.
The model embeds words (characters, for Chinese) and hashed n-grams, mixes them with self-attention, and classifies the mean. The
baselines: the same with 0 layers, and TF-IDF with logistic regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.order import Order, padded
from regard.recipes.plan import Batch, Work

TASK = "text"
DATA = {"movies": defaults.movie_sentences, "reviews": defaults.chinese_reviews}
BATCHING = ("bucket", "pad", "pack")


@dataclass(frozen=True)
class Settings:
    """`heads` 1, 2, 4, 8; `position` none, sinusoidal, learned, rotary, alibi, relative; `batching` bucket, pad or pack; `layers` 0:
    no attention; `forget`: share of words hidden in training; `limit` 0: all texts."""

    heads: int = 4
    layers: int = 1
    width: int = 64
    position: str = "rotary"
    batching: str = "bucket"
    length: int = 256
    grams: int = 2
    buckets: int = 50_000
    vocabulary: int = 30_000
    dropout: float = 0.3
    forget: float = 0.15
    limit: int = 0
    batch: int = 64
    steps: int = 700
    evaluate: int = 100
    lr: float = 0.003
    weight_decay: float = 0.05
    clip: float = 1.0


LONG = {"steps": 4000, "length": 512, "width": 96, "evaluate": 400}
VARIANTS = {
    "no attention": {"layers": 0},
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
    """(B, T) ids to (B, K) scores."""

    def __init__(self, sizes: Sizes, classes: int):
        super().__init__()
        self.encoder = Encoder(sizes)
        self.dropout = nn.Dropout(sizes.dropout)
        self.head = nn.Linear(sizes.width, classes)

    def forward(
        self, ids: Tensor, lengths: Tensor, owner: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """Classify.

        Args:
            ids: (B, T), padded; or (1, all tokens): all texts in one row without padding.
            lengths: (B,).
            owner, positions: (1, all tokens) each, for one row: the number of each token's text, and its place in it.

        Returns:
            (B, K), the same for both forms.
        """
        if owner is not None:
            x = self.encoder(ids, mask=documents(owner), positions=positions)[0]  # (all tokens, E)
            mean = x.new_zeros(len(lengths), x.shape[1]).index_add(0, owner[0], x) / lengths[:, None]
        else:
            x = self.encoder(ids, mask=padding(lengths=lengths))  # (B, T, E)
            keep = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
            mean = (x * keep[..., None]).sum(1) / lengths[:, None]
        return self.head(self.dropout(mean))


def network(about: dict) -> Classifier:
    """The model of a config."""
    settings = Settings(**about["settings"])
    sizes = Sizes(
        words=about["words"], width=settings.width, layers=settings.layers, heads=settings.heads, position=settings.position,
        length=settings.length, dropout=settings.dropout, grams=settings.grams, buckets=settings.buckets,
    )  # fmt: skip
    return Classifier(sizes, len(about["classes"]))


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """Texts, tokenizer, model and work."""
    if settings.batching not in BATCHING:
        raise DataError(f"batching={settings.batching} is not one of {', '.join(BATCHING)}")
    found = _read(data)
    found = found._replace(train=thinned(found.train, settings.limit or None, lambda one: one.text))
    tokenizer = words.learn([one.text for one in found.train], most=settings.vocabulary)
    classes = sorted({one.label for one in found.train})
    about = {"settings": vars(settings), "classes": classes, "words": tokenizer.get_vocab_size()}

    def ids_of(part: list[Labelled]) -> list[list[int]]:
        return words.encode(tokenizer, [one.text for one in part], settings.length)

    rows, labels = ids_of(found.train), torch.tensor([classes.index(one.label) for one in found.train])
    lengths = [len(row) for row in rows]

    def collate(indices: Tensor) -> Batch:
        ids, counts = padded([rows[i] for i in indices.tolist()])
        if settings.batching == "pad":
            ids = F.pad(ids, (0, settings.length - ids.shape[1]))
        hidden = (torch.rand(ids.shape) < settings.forget) & (ids != words.PAD)
        return Batch((ids.masked_fill(hidden, words.UNKNOWN), counts, labels[indices]), len(indices))

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        ids, counts, right = batch
        scores = model(*_pack(ids, counts)) if settings.batching == "pack" else model(ids, counts)
        return F.cross_entropy(scores, right, reduction="sum", label_smoothing=0.05)

    torch.manual_seed(seed)
    model = network(about)
    parts = {
        name: (ids_of(part), [classes.index(one.label) for one in part])
        for name, part in (("val", found.val), ("test", found.test))
    }
    work = Work(
        model=model,
        order=Order(
            len(rows),
            min(settings.batch, len(rows)),
            seed=seed,
            lengths=lengths if settings.batching == "bucket" else None,
        ),
        collate=collate,
        loss=loss,
        evaluate=lambda model: measured(model, *parts["val"]),
        score="accuracy",
    )
    return Job(
        work, about, lambda model: measured(model, *parts["test"]),
        f"{len(rows):,} texts to train, {len(found.val):,} to choose, {len(found.test):,} to test; {about['words']:,} words",
        "accuracy", {words.FILE: words.saved(tokenizer)}, lambda: counted_words(found),
    )  # fmt: skip


def measured(model: nn.Module, rows: list[list[int]], labels: list[int]) -> dict[str, float]:
    """Accuracy in percent and the loss; similar lengths together."""
    from torchmetrics.functional.classification import multiclass_accuracy

    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    scores = []
    for i in range(0, len(order), 128):
        ids, counts = padded([rows[j] for j in order[i : i + 128]])
        scores.append(model(ids.to(device), counts.to(device)).float().cpu())
    made, right = torch.cat(scores), torch.tensor([labels[i] for i in order])
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
    model, tokenizer = weights_into(network(about), folder), words.load(folder)

    def inputs(text: str) -> tuple[tuple[Tensor, ...], list[str]]:
        row = words.encode(tokenizer, [text], about["settings"]["length"])[0]
        return (torch.tensor([row]), torch.tensor([len(row)])), [tokenizer.id_to_token(i) for i in row]

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


def _pack(ids: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
    """Padded rows as one row: ids, the lengths, the number of the text of each token and its place in it, (1, N) each."""
    keep = torch.arange(ids.shape[1], device=ids.device) < counts[:, None]
    owner, positions = keep.nonzero(as_tuple=True)
    return ids[keep][None], counts, owner[None], positions[None]
