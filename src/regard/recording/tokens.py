"""Token labels that people can read, and words addressed by position or by (text, occurrence), never by first match alone.

Labels come from a tokenizer's offsets into the text: strings of byte-level tokenizers are not readable, and decoding one token at
a time gives replacement characters. A character that is split into several tokens is shown as 注₁ 注₂ 注₃.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import CaptureError

VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽"}
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Tokens:
    """The tokens of one sequence.

    Args:
        labels: One readable label per position.
        ids: (N,) token ids, or None.
        text, offsets: The text and each token's (start, end) in it; (0, 0) for special tokens.
        words: For each token, the number of its word; None for tokens that belong to none.
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        ids: Tensor | None = None,
        text: str | None = None,
        offsets: Sequence[tuple[int, int]] | None = None,
        words: Sequence[int | None] | None = None,
    ):
        self.labels, self.ids, self.text = list(labels), ids, text
        self.offsets = list(offsets) if offsets is not None else None
        self.words = list(words) if words is not None else None
        for name, given in (("ids", ids), ("offsets", self.offsets), ("words", self.words)):
            if given is not None and len(given) != len(self.labels):
                raise CaptureError(
                    f"there are {len(self.labels)} labels and {len(given)} {name}; give one for each token"
                )

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, given: Any) -> Tokens | None:
        """Tokens from Tokens, labels, or ids; None from None."""
        if given is None or isinstance(given, Tokens):
            return given
        if isinstance(given, Tensor):
            ids = given.detach().reshape(-1).cpu()
            return cls([str(i) for i in ids.tolist()], ids=ids)
        return cls([str(label) for label in given])

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, text: str, **options: Any) -> Tokens:
        """Tokens of `text` from a fast Hugging Face tokenizer or a `tokenizers.Tokenizer`. `options` go to the tokenizer.

        Raises:
            CaptureError: The tokenizer gives no offsets (a slow one).
        """
        ids, offsets, words, name = _encoded(tokenizer, text, options)
        labels = readable(text, offsets, [name(i) for i in ids])
        return cls(labels, ids=torch.tensor(ids), text=text, offsets=offsets, words=words)

    def find(self, text: str) -> list[range]:
        """Every occurrence of `text`, as ranges of positions: in the source text where it is known, else among the labels."""
        if not text:
            return []
        if self.text is None or self.offsets is None:
            plain = [label.strip("␣ Ġ▁") for label in self.labels]
            return [range(i, i + 1) for i, label in enumerate(plain) if text in (label, self.labels[i])]
        found, at = [], self.text.find(text)
        while at >= 0:
            inside = [i for i, (a, b) in enumerate(self.offsets) if a < at + len(text) and b > at]
            if inside:
                found.append(range(inside[0], inside[-1] + 1))
            at = self.text.find(text, at + len(text))
        return found

    def position(self, text: str | int, occurrence: int | None = None) -> range:
        """The positions of one occurrence (0 is the first), or of a position given as a number.

        Raises:
            CaptureError: There is none, or several and `occurrence` does not say which; the text lists them.
        """
        if isinstance(text, int):
            if not 0 <= text < len(self):
                raise CaptureError(f"there is no position {text}; positions are 0 to {len(self) - 1}")
            return range(text, text + 1)
        found = self.find(text)
        if not found:
            raise CaptureError(f"{text!r} is not among the {len(self)} tokens")
        if occurrence is None and len(found) > 1:
            places = ", ".join(str(r.start) for r in found)
            raise CaptureError(
                f"{text!r} occurs {len(found)} times, at {places}; say which: ({text!r}, 0) is the first"
            )
        if occurrence is not None and not 0 <= occurrence < len(found):
            raise CaptureError(f"{text!r} occurs {len(found)} time(s); occurrence {occurrence} does not exist")
        return found[occurrence or 0]

    def groups(self) -> list[range]:
        """Runs of positions that make one word; special tokens and words of one token stand alone."""
        words = self.words if self.words is not None else self._words_by_offset()
        groups: list[range] = []
        for i, word in enumerate(words):
            if groups and word is not None and word == words[i - 1]:
                groups[-1] = range(groups[-1].start, i + 1)
            else:
                groups.append(range(i, i + 1))
        return groups

    def _words_by_offset(self) -> list[int | None]:
        if self.text is None or self.offsets is None:
            return [None] * len(self)
        words: list[int | None] = []
        count = -1
        for i, (a, b) in enumerate(self.offsets):
            before = self.offsets[i - 1] if i else (0, 0)
            joined = i > 0 and b > a and (before == (a, b) or (before[1] == a and _letters(self.text[a - 1 : a + 1])))
            count += not joined
            words.append(count if b > a else None)
        return words

    def merged(self) -> Tokens:
        """One token per word, labelled with the text of the word."""
        labels, offsets = [], []
        for group in self.groups():
            if (
                self.text is not None
                and self.offsets is not None
                and self.offsets[group.start][1] > self.offsets[group.start][0]
            ):
                start, end = self.offsets[group.start][0], self.offsets[group.stop - 1][1]
                labels.append(visible(self.text[start:end]))
                offsets.append((start, end))
            else:
                labels.append("".join(self.labels[i] for i in group))
                offsets.append((0, 0))
        return Tokens(labels, text=self.text, offsets=offsets if self.text is not None else None)

    def merge(self, weights: Tensor) -> Tensor:
        """(..., T, S) -> words x words: what a word's tokens receive is added, what they give is averaged. Rows keep their sum."""
        if weights.shape[-2:] != (len(self), len(self)):
            raise CaptureError(
                f"weights are {tuple(weights.shape[-2:])} and there are {len(self)} tokens; both axes must be the tokens"
            )
        table = torch.zeros(len(self.groups()), len(self), dtype=weights.dtype, device=weights.device)
        for i, group in enumerate(self.groups()):
            table[i, group.start : group.stop] = 1.0
        return (table / table.sum(1, keepdim=True)) @ weights @ table.T


def readable(text: str, offsets: Sequence[tuple[int, int]], names: Sequence[str]) -> list[str]:
    """Labels from offsets: the text of each token with spaces made visible; pieces of one character are numbered."""
    labels = []
    for i, (start, end) in enumerate(offsets):
        if end <= start:
            labels.append(names[i])
            continue
        same = [j for j, span in enumerate(offsets) if span == (start, end)]
        label = visible(text[start:end])
        labels.append(label + str(same.index(i) + 1).translate(SUBSCRIPT) if len(same) > 1 else label)
    return labels


def visible(text: str) -> str:
    """Spaces, newlines and tabs as signs."""
    return "".join(VISIBLE.get(c, c) for c in text)


def _letters(two: str) -> bool:
    """Whether two neighbouring characters are letters or digits of a script that separates words by spaces."""
    return len(two) == 2 and all(c.isalnum() and ord(c) < 0x2E80 for c in two)


def _encoded(
    tokenizer: Any, text: str, options: dict
) -> tuple[list[int], list[tuple[int, int]], list | None, Callable[[int], str]]:
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "id_to_token"):  # tokenizers.Tokenizer
        encoding = tokenizer.encode(text, **options)
        return (
            list(encoding.ids),
            list(encoding.offsets),
            list(encoding.word_ids),
            lambda i: str(tokenizer.id_to_token(i)),
        )
    if not getattr(tokenizer, "is_fast", False):
        raise CaptureError(f"{type(tokenizer).__name__} gives no offsets; use the fast tokenizer, or Tokens(labels)")
    encoding = tokenizer(text, return_offsets_mapping=True, **options)
    offsets = [(int(a), int(b)) for a, b in encoding["offset_mapping"]]
    return (
        list(encoding["input_ids"]),
        offsets,
        list(encoding.word_ids()),
        lambda i: str(tokenizer.convert_ids_to_tokens(i)),
    )
