"""Questions about a text: the answer is a span of it. Cross-attention to the question against one concatenated sequence.

Axes: B questions, T tokens of the context, Q of the question, F columns of `word_rows`, E channels.
Models of about equal size: `cross` (the context attends to itself, then to the question), `both` (the question to the context as well),
`concat` (one sequence with a segment embedding), `recurrent` (a BiGRU over context times question; no attention).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.errors import DataError
from regard.core.mask.sequences import padding
from regard.nn.feed_forward import FeedForward
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.transformer_block import TransformerBlock
from regard.recipes import word_rows, words
from regard.recipes.data import defaults, hub
from regard.recipes.data.questions import Question, read_questions
from regard.recipes.data.splits import Splits, thinned
from regard.recipes.encoder import Sizes, mixer
from regard.recipes.job import Job, Restored, read_config, weights_into
from regard.recipes.local import Local
from regard.recipes.matching import Matching, rarities
from regard.recipes.order import Order, padded
from regard.recipes.plan import Batch, Work
from regard.recipes.spans import LONGEST, Passage, SpanScores, best_spans, joined, judged, tokenized

TASK = "qa"
DATA = {"wiki": defaults.lead_questions}
MODELS = ("cross", "both", "concat", "recurrent")
CHOOSE = 600  # questions by which a checkpoint is chosen: those with the smallest hashes


@dataclass(frozen=True)
class Settings:
    """`others`: contexts of other questions that are joined to the right one, drawn anew each time; `alone`: share of training batches
    without them; `match`: tell which words stand in the question; `segment`: tell question from context in `concat`; `local` 0: no
    convolution; `forget`: share of words hidden in training; `repair`: of misplaced answers."""

    model: str = "cross"
    others: int = 2
    width: int = 96
    layers: int = 2
    heads: int = 4
    position: str = "rotary"
    local: int = 7
    match: bool = True
    segment: bool = True
    length: int = 320
    vocabulary: int = 20_000
    dropout: float = 0.1
    forget: float = 0.1
    alone: float = 0.3
    repair: bool = False
    limit: int = 0
    batch: int = 32
    steps: int = 600
    evaluate: int = 150
    lr: float = 0.0015
    weight_decay: float = 0.02
    average: float = 0.0


LONG = {"steps": 4000, "evaluate": 500}
VARIANTS = {
    "recurrent": {"model": "recurrent"},
    "concat": {"model": "concat"},
    "concat, no segments": {"model": "concat", "segment": "false"},
    "concat, no convolution": {"model": "concat", "local": 0},
    "concat, not told what matches": {"model": "concat", "match": "false"},
    "concat, no segments, not told": {"model": "concat", "segment": "false", "match": "false"},
    "cross": {},
    "cross, no convolution": {"local": 0},
    "cross, not told what matches": {"match": "false"},
    "both directions": {"model": "both"},
}


class Reader(nn.Module):
    """Rows of contexts and questions to the scores of all spans: (B, T, T), [start, end]."""

    def __init__(self, s: Settings, known: int):
        super().__init__()
        if s.model not in MODELS:
            raise DataError(f"model={s.model} is not one of {', '.join(MODELS)}")
        self.settings, E = s, s.width
        self.embed = nn.Embedding(known, E, padding_idx=words.PAD)
        nn.init.normal_(self.embed.weight, std=0.3)
        self.forms = nn.EmbeddingBag(word_rows.BUCKETS, E, mode="sum", padding_idx=0)
        nn.init.normal_(self.forms.weight, std=0.15)
        self.match = Matching(E, known) if s.match else None
        self.segment = nn.Embedding(2, E) if s.segment and s.model == "concat" else None
        sizes = Sizes(
            known, E, s.layers, s.heads, s.position, s.length, dropout=0.0
        )  # of weights: half of a step's time
        crossing = s.model in ("cross", "both")
        hidden = E if crossing else 3 * E  # cross-attention has 4 E^2 more parameters; the feed-forward gives them back

        def block() -> TransformerBlock:
            cross = MultiHeadAttention(E, s.heads) if crossing else None
            return TransformerBlock(E, mixer(sizes), cross=cross, feed_forward=FeedForward(E, hidden))

        attends = s.model != "recurrent"
        self.blocks = nn.ModuleList(block() for _ in range(s.layers if attends else 0))
        self.back = nn.ModuleList(block() for _ in range(s.layers - 1 if s.model == "both" else 0))
        self.local = nn.ModuleList(Local(E, s.local) for _ in range(s.layers if attends and s.local else 0))
        self.asked = Local(E, s.local or 3)
        self.recurrent = nn.GRU(2 * E, E // 2, s.layers, batch_first=True, bidirectional=True) if not attends else None
        self.norm, self.ends = nn.LayerNorm(E), SpanScores(E)

    def forward(self, context: Tensor, question: Tensor) -> Tensor:
        """Contexts (B, T, F) and questions (B, Q, F), rows of `word_rows`; to (B, T, T)."""
        seen, asked = context[..., 0] != words.PAD, question[..., 0] != words.PAD
        x, q = self._embedded(context), self._embedded(question)
        if self.match is not None:
            x, q = (a + b for a, b in zip((x, q), self.match(context, question)))
        x, q = self._dropped(x), self.asked(self._dropped(q), asked)
        if self.settings.model == "concat":
            x = self._joined(x, q, seen, asked)
        elif self.recurrent is not None:
            whole = (q * asked[..., None]).sum(1, keepdim=True) / asked.sum(1)[:, None, None]
            rows = nn.utils.rnn.pack_padded_sequence(
                torch.cat([x, x * whole], 2), seen.sum(1).cpu(), batch_first=True, enforce_sorted=False
            )
            x = nn.utils.rnn.pad_packed_sequence(self.recurrent(rows)[0], batch_first=True, total_length=x.shape[1])[0]
        else:
            x = self._crossed(x, q, seen, asked)
        return self.ends(self._dropped(self.norm(x)), seen)

    def _embedded(self, rows: Tensor) -> Tensor:
        ids, forms = rows[..., word_rows.ID], rows[..., word_rows.FORMS :]
        if self.training and self.settings.forget:
            hidden = (torch.rand(ids.shape, device=ids.device) < self.settings.forget) & (ids > words.UNKNOWN)
            ids = ids.masked_fill(hidden, words.UNKNOWN)
        return self.embed(ids) + self.forms(forms.flatten(0, 1)).view(*ids.shape, -1)

    def _dropped(self, x: Tensor) -> Tensor:
        """Dropout of whole channels of a sequence: as many random numbers as it has channels, not as it has numbers."""
        return nn.functional.dropout1d(x.transpose(1, 2), self.settings.dropout, self.training).transpose(1, 2)

    def _crossed(self, x: Tensor, q: Tensor, seen: Tensor, asked: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            if i and len(self.back):
                q = self.back[i - 1](q, x, mask=padding(asked), context_mask=padding(seen))
            x = self.local[i](self._dropped(x), seen) if len(self.local) else self._dropped(x)
            x = block(x, q, mask=padding(seen), context_mask=padding(asked))
        return x

    def _joined(self, x: Tensor, q: Tensor, seen: Tensor, asked: Tensor) -> Tensor:
        if self.segment is not None:
            q, x = q + self.segment.weight[0], x + self.segment.weight[1]
        y, keep, Q = torch.cat([q, x], 1), torch.cat([asked, seen], 1), q.shape[1]
        for i, block in enumerate(self.blocks):
            y = self.local[i](self._dropped(y), keep) if len(self.local) else self._dropped(y)
            y = block(y, mask=padding(keep))
        return y[:, Q:]


class _Part(NamedTuple):
    questions: list[Question]
    passages: list[Passage]
    by_topic: dict[str, list[int]]


def prepare(settings: Settings, data: str | None, seed: int) -> Job:
    """Questions, tokenizer, model and work."""
    found, topic = _read(settings, data)
    found = found._replace(
        train=thinned(found.train, settings.limit or None, _content), val=thinned(found.val, CHOOSE, _content)
    )
    texts = [text for one in found.train for text in (one.context, one.question)]
    tokenizer = words.learn(list(dict.fromkeys(texts)), most=settings.vocabulary, special=("[NONE]",))
    about = {"settings": vars(settings), "words": tokenizer.get_vocab_size()}
    train = _cut(found.train, tokenizer, topic, settings.length)
    parts = {name: _cut(rows, tokenizer, topic) for name, rows in (("val", found.val), ("test", found.test))}
    if not train.questions:
        raise DataError(
            f"no answer lies within the first {settings.length} tokens of its context; --set length={2 * settings.length}"
        )

    def collate(indices: Tensor) -> Batch:
        alone = float(torch.rand(())) < settings.alone
        return Batch(
            _tensors(train, indices.tolist(), 0 if alone else settings.others, settings, topic, None)[:3], len(indices)
        )

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        context, question, spans = batch
        scores = model(context, question)  # (B, T, T)
        return F.cross_entropy(scores.flatten(1), spans[:, 0] * scores.shape[2] + spans[:, 1], reduction="sum")

    def measured(model: nn.Module, name: str) -> dict[str, float]:
        rows, device = parts[name], next(model.parameters()).device
        made = []
        for at in range(0, len(rows.questions), 64):
            block = list(range(at, min(at + 64, len(rows.questions))))
            drawn = torch.Generator().manual_seed(at)
            *inputs, _, contexts = _tensors(rows, block, settings.others, settings, topic, drawn)
            scores = model(*(x.to(device) for x in inputs)).float().cpu()
            made += [context.text(*span) for context, span in zip(contexts, best_spans(scores))]
        return judged(made, rows.questions)

    torch.manual_seed(seed)
    model = Reader(settings, about["words"])
    if model.match is not None:
        model.match.rarity.copy_(rarities([p.context for p in train.passages], about["words"]))
    work = Work(
        model=model,
        order=Order(len(train.questions), min(settings.batch, len(train.questions)), seed=seed),
        collate=collate,
        loss=loss,
        evaluate=lambda model: measured(model, "val"),
        score="f1",
    )
    sizes = (
        f"{len(train.questions):,} questions to train ({len(found.train) - len(train.questions)} left out: their answer has over {LONGEST} tokens or lies beyond {settings.length}), "
        f"{len(found.val):,} to choose, {len(found.test):,} to test; {about['words']:,} words"
    )
    return Job(work, about, lambda model: measured(model, "test"), sizes, "f1", {words.FILE: words.saved(tokenizer)})


def _content(one: Question) -> str:
    return one.identity + one.question


def _cut(rows: list[Question], tokenizer: Any, topic: Any, length: int | None = None) -> _Part:
    """Questions as passages; with a length only those whose answer lies within it and has at most `LONGEST` tokens."""
    passages = [tokenized(tokenizer, one) for one in rows]
    fits = [length is None or (p.end < length and p.end - p.start < LONGEST and len(p.context) > 1) for p in passages]
    kept = [i for i, good in enumerate(fits) if good]
    by_topic: dict[str, list[int]] = {}
    for place, i in enumerate(kept):
        by_topic.setdefault(topic(rows[i]), []).append(place)
    return _Part([rows[i] for i in kept], [passages[i] for i in kept], by_topic)


def _tensors(
    part: _Part, chosen: list[int], others: int, settings: Settings, topic: Any, generator: torch.Generator | None
) -> tuple[Any, ...]:
    """Contexts, questions and spans of questions, each among `others` contexts of its topic; and the joined passages."""
    contexts = []
    for i in chosen:
        same = part.by_topic[topic(part.questions[i])]
        pool = same if len(same) > 3 * others else range(len(part.passages))
        picked: list[int] = []
        for n in torch.randint(len(pool), (4 * others,), generator=generator).tolist():
            other = pool[n]
            if len(picked) < others and part.questions[other].context != part.questions[i].context:
                picked.append(other)
        place = int(torch.randint(len(picked) + 1, (1,), generator=generator))
        contexts.append(joined([part.passages[n] for n in picked], part.passages[i], place, settings.length))
    context, _ = padded([one.context for one in contexts])
    question, _ = padded([part.passages[i].question for i in chosen])
    return context, question, torch.tensor([[one.start, one.end] for one in contexts]), contexts


def restore(folder: Path) -> Restored:
    """The model of a run; it answers `QUESTION ||| CONTEXT`."""
    about = read_config(folder)
    settings = Settings(**about["settings"])
    model, tokenizer = weights_into(Reader(settings, about["words"]), folder), words.load(folder)

    def read(text: str) -> tuple[Passage, tuple[Tensor, ...]]:
        question, bars, context = text.partition("|||")
        if not bars or not question.strip() or not context.strip():
            raise DataError(
                'give the question and the context as one text: "How long is the Elbe? ||| The Elbe is 1094 km long."'
            )
        passage = tokenized(tokenizer, Question("", "", context.strip(), question.strip(), (), ()))
        return passage, (passage.context[None], passage.question[None])

    def predict(text: str) -> list[str]:
        passage, tensors = read(text)
        with torch.no_grad():
            span = best_spans(model(*tensors).float())[0]
        return [passage.text(*span) or "(no answer in this text)"]

    def inputs(text: str) -> tuple[tuple[Tensor, ...], list[str]]:
        passage, tensors = read(text)
        return tensors, [tokenizer.id_to_token(i) for i in passage.context[:, word_rows.ID].tolist()]

    return Restored(model, predict, inputs)


def _read(settings: Settings, data: str | None) -> tuple[Splits[Question], Any]:
    if hub.is_hub(data):
        raise DataError(f"{data}: questions are read from SQuAD's JSON; save the data set in that form first")
    if data is None or data in DATA or ("*" not in data and not Path(data).exists()):
        return defaults.lead_questions() if data is None else defaults.named(data, DATA, TASK)
    return read_questions(data, repair=settings.repair), lambda one: ""
