"""Texts as ids: words or characters, whichever the texts are made of, by the library `tokenizers`; and hashed n-grams of ids.

Axes: B texts, T tokens, N sizes of n-grams.
Ids: 0 is padding, 1 an unknown word.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import DataError, MissingExtraError

PAD, UNKNOWN = 0, 1
FILE = "tokenizer.json"
_WIDE = ("\u3040", "\u9fff")  # kana and Chinese characters


def by_characters(texts: Iterable[str]) -> bool:
    """Whether texts are written without spaces between words: a third of their signs or more are Chinese or Japanese."""
    sample = "".join(text for text, _ in zip(texts, range(200)))
    return sum(_WIDE[0] <= c <= _WIDE[1] for c in sample) * 3 >= max(1, len(sample))


def learn(
    texts: list[str], *, most: int = 30_000, least: int = 2, special: tuple[str, ...] = (), lower: bool = True
) -> Any:
    """A tokenizer that knows the words (or characters) that occur at least `least` times, at most `most` of them.

    Raises:
        MissingExtraError: `tokenizers` is not installed.
    """
    library = _library()
    made = library.Tokenizer(library.models.WordLevel(unk_token="[UNK]"))
    steps = [library.normalizers.NFC(), library.normalizers.Lowercase()] if lower else [library.normalizers.NFC()]
    made.normalizer = library.normalizers.Sequence(steps)
    if by_characters(texts):
        every = library.Regex(r"\s|.")
        made.pre_tokenizer = library.pre_tokenizers.Sequence(
            [library.pre_tokenizers.WhitespaceSplit(), library.pre_tokenizers.Split(every, "isolated")]
        )
    else:
        made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    trainer = library.trainers.WordLevelTrainer(
        vocab_size=most, min_frequency=least, special_tokens=["[PAD]", "[UNK]", *special], show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return made


def learn_pieces(texts: list[str], *, most: int) -> Any:
    """A tokenizer of byte pairs: frequent words whole, rare ones in pieces, nothing unknown. Ids 2 and 3: [BEGIN], [END]."""
    library = _library()
    made = library.Tokenizer(library.models.BPE(unk_token="[UNK]"))
    made.normalizer = library.normalizers.NFC()
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=most, special_tokens=["[PAD]", "[UNK]", "[BEGIN]", "[END]"], show_progress=False,
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    return made


def load(folder: Path) -> Any:
    """The tokenizer of a run.

    Raises:
        DataError: The folder has none.
    """
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"{folder} has no {FILE}; give the --out folder of a regard train run")
    return _library().Tokenizer.from_file(str(path))


def saved(tokenizer: Any) -> bytes:
    """The content of `tokenizer.json`."""
    return tokenizer.to_str(pretty=False).encode()


def encode(tokenizer: Any, texts: list[str], length: int, *, name: str = "the text") -> list[list[int]]:
    """The ids of texts, each cut to `length`.

    Raises:
        DataError: A text without a single token.
    """
    rows = [found.ids[:length] for found in tokenizer.encode_batch(texts, add_special_tokens=False)]
    empty = next((i for i, row in enumerate(rows) if not row), None)
    if empty is not None:
        raise DataError(f"{name} number {empty + 1} has no token: {texts[empty]!r}")
    return rows


def n_grams(ids: Tensor, sizes: int, buckets: int) -> Tensor:
    """(B, T) ids to (B, T, sizes - 1): for each place the hash of the 2, 3, ... ids that end there, from 1 to `buckets` - 1.

    N-grams that reach over the beginning or into padding are 0.
    """
    found, joined, whole = [], ids, ids > PAD
    for back in range(1, sizes):
        before = torch.nn.functional.pad(ids, (back, 0))[:, : ids.shape[1]]
        joined = joined * 1_000_003 + before * 7_919 + back
        whole = whole & (before > PAD)
        found.append((joined % (buckets - 1) + 1) * whole)
    return torch.stack(found, dim=-1) if found else ids[..., None][..., :0]


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise MissingExtraError('texts are cut with tokenizers: pip install "regard[train]"') from error
    return tokenizers
