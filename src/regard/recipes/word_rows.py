"""Words as rows of numbers: what a model is told of a word besides its id: how it is written, and which other words equal it.

Axes: T words, F columns.
Two words are the same where their hashes are, known to the vocabulary or not; the first letters stand for the stem.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

import torch
from torch import Tensor

ID, WORD, STEM, PASSAGE, FORMS = range(5)  # columns; the hashed forms begin with FORMS
COLUMNS, BUCKETS = FORMS + 4, 6_000
LETTERS = 5  # of a stem


def rows(ids: list[int], texts: list[str], passage: int = 0) -> Tensor:
    """(T, F): of each word its id, the hashes of it and of its stem (0: nothing to compare), the number of its passage, its forms."""
    if not ids:
        return torch.zeros(0, COLUMNS, dtype=torch.long)
    hashed = [(number, *written(text)) for number, text in zip(ids, texts)]
    return torch.tensor([[number, word, stem, passage, *forms] for number, word, stem, *forms in hashed])


@lru_cache(maxsize=100_000)
def written(text: str) -> tuple[int, ...]:
    """The hashes of a word and of its stem, and the buckets of its beginning, of two endings and of its shape.

    >>> written("Rivers")[1] == written("river")[1], written("Rivers")[0] == written("river")[0]
    (True, False)
    """
    small = text.lower()
    if not any(c.isalnum() for c in small):
        return 0, 0, _bucket("=" + small), 0, 0, 0
    shape = "".join("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else "-" for c in text)
    shape = "".join(c for i, c in enumerate(shape) if i == 0 or shape[i - 1] != c)[:4]
    forms = (_bucket("<" + small[:3]), _bucket(small[-2:] + ">"), _bucket(small[-3:] + ">"), _bucket("shape" + shape))
    return (
        crc32(small.encode("utf-8", "surrogatepass")),
        crc32(small[:LETTERS].encode("utf-8", "surrogatepass")),
        *forms,
    )


def _bucket(form: str) -> int:
    return crc32(form.encode("utf-8", "surrogatepass")) % (BUCKETS - 1) + 1
