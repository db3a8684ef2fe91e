"""What other libraries mean is measured, and the table of the documents says what is measured."""

import pathlib

import pytest
import torch

from regard.bench.timm_peer import load_timm
from regard.convert.conventions import COLUMNS, Library, conventions, measure, table
from regard.core.errors import ConversionError

pytestmark = pytest.mark.filterwarnings("ignore")  # of eight libraries

ROOT = pathlib.Path(__file__).parents[2]
SAID = {"refused": "equal lengths only", "named": "-"}  # ours: the words of the page -> what can be measured


@pytest.fixture(scope="module")
def measured():
    import importlib.util

    if importlib.util.find_spec("timm") is not None:
        load_timm("layers.attention", "layers.pos_embed_sincos")
    return {row.library: row for row in conventions()}


def documented(page: str) -> dict[str, list[str]]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines if line.count("|") == 9]
    return {row[0]: row[1:] for row in rows[2:]}


def test_the_table_of_the_documents_is_what_is_measured(measured):
    said = documented("docs/conventions.md")
    assert len(said) >= 15
    for name, row in measured.items():
        cells = [SAID.get(cell, cell) for cell in said[name][:6]]
        assert cells == row.row()[1:], name
        assert said[name][6].startswith("`regard conventions ")
        assert said[name][6].strip("`").split()[-1].lower() in name.lower()
    assert len(measured) >= 4


def test_the_chinese_table_has_the_same_rows_and_signs():
    english, chinese = documented("docs/conventions.md"), documented("docs/zh/conventions.md")
    assert list(english) == list(chinese)
    for name, cells in english.items():
        assert [c for c in cells if c in ("-", "0", "NaN", "0 0 1 1", "0 1 0 1")] == [
            c for c in chinese[name] if c in ("-", "0", "NaN", "0 0 1 1", "0 1 0 1")
        ]


def test_torch_alone_has_two_meanings_of_true(measured):
    assert measured["torch scaled_dot_product_attention"].true == "attend"
    assert measured["torch nn.MultiheadAttention"].true == "ignore"


def by_hand(q, k, v, attend, *, fill=float("-inf")):
    scores = (q @ k.transpose(-2, -1)).masked_fill(~attend, fill)
    return scores.softmax(-1) @ v


def tril(q, k, offset):
    return torch.ones(q.shape[2], k.shape[2]).tril(offset).bool()[None, None]


def test_each_meaning_is_told_apart():
    def ignore(q, k, v, mask):
        return by_hand(q, k, v, ~mask)

    plain = measure(Library("a", "torch", by_hand))
    assert (plain.true, plain.no_key) == ("attend", "NaN")
    turned = measure(Library("b", "torch", ignore))
    assert (turned.true, turned.no_key) == ("ignore", "NaN")
    finite = measure(Library("c", "torch", lambda q, k, v, m: by_hand(q, k, v, m, fill=-1e9)))
    assert finite.no_key == "mean of all values"
    for offset, name in ((0, "top-left"), (1, "bottom-right")):
        made = Library("d", "torch", causal=lambda q, k, v, o=offset: by_hand(q, k, v, tril(q, k, o)))
        assert measure(made).causal == name

    def refuses(q, k, v):
        raise ValueError

    assert measure(Library("e", "torch", causal=refuses)).causal == "equal lengths only"
    for width, name in ((2, "2 keys"), (3, "3 keys")):
        made = Library("f", "torch", window=lambda q, k, v, w=width: by_hand(q, k, v, tril(q, k, 0) & ~tril(q, k, -w)))
        assert measure(made).window == name


def test_heads_and_pairs_are_told_apart():
    def grouped(q, k, v):
        return v.repeat_interleave(2, dim=1)

    def tiled(q, k, v):
        return v.repeat(1, 2, 1, 1)

    assert measure(Library("a", "torch", grouped=grouped)).groups == "0 0 1 1"
    assert measure(Library("b", "torch", grouped=tiled)).groups == "0 1 0 1"
    from regard.position import Rotary

    for pairing in ("half", "interleaved"):
        rotary = Rotary(4, pairing=pairing)
        made = Library("c", "torch", turned=lambda x, r=rotary: r(x, torch.arange(2)))
        assert measure(made).pairing == pairing


def test_names_that_are_none_and_libraries_that_are_not_there_are_refused(monkeypatch):
    with pytest.raises(ConversionError, match=r"no library is called 'nobody'; there are regard.attention, torch"):
        conventions("nobody")
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConversionError, match=r"jax.nn.dot_product_attention is not installed \(package jax\)"):
        conventions("jax")


def test_the_text_has_a_block_per_library():
    text = table(conventions("scaled_dot"))
    assert text.splitlines()[0] == "torch scaled_dot_product_attention"
    assert f"  {COLUMNS[1]}: attend" in text
