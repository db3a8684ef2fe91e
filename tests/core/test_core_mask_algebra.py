"""Masks as expressions: how they print, draw, know their form, travel as pytrees, and what they refuse."""

import re

import pytest
import torch
from torch.utils import _pytree as pytree

from regard.core.errors import MaskError, ShapeError
from regard.core.mask import structure
from regard.mask import (
    Mask,
    blocks,
    causal,
    dense,
    dilated,
    documents,
    global_tokens,
    padding,
    prefix,
    sliding_window,
)

keep = torch.tensor([[True, True, False], [True, False, False]])


def refused(text, kind=MaskError):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (causal(), "causal()"),
        (causal(offset=3), "causal(offset=3)"),
        (causal(offset=torch.tensor([1, 2])), "causal(offset=<(2,)>)"),
        (sliding_window(left=2), "sliding_window(left=2)"),
        (sliding_window(2, 1, offset=4), "sliding_window(left=2, right=1, offset=4)"),
        (dilated(2, 1, 0), "dilated(step=2, left=1, right=0)"),
        (prefix(4), "prefix(4)"),
        (global_tokens(3), "global_tokens([3])"),
        (global_tokens([0, 2], queries=False, offset=1), "global_tokens([0, 2], queries=False, offset=1)"),
        (padding(keep), "padding(<(2, 3)>)"),
        (padding(lengths=[1, 2]), "padding(lengths=<(2,)>)"),
        (documents(torch.zeros(2, 5, dtype=torch.int64), offset=1), "documents(<(2, 5)>, offset=1)"),
        (blocks(torch.ones(2, 3) > 0, size=4), "blocks(<(2, 3)>, size=4)"),
        (dense(torch.ones(1, 2, 3, 4) > 0), "dense(<(1, 2, 3, 4)>)"),
        (causal() & sliding_window(left=1) & padding(keep), "causal() & sliding_window(left=1) & padding(<(2, 3)>)"),
        ((causal() | prefix(2)) & padding(keep), "(causal() | prefix(2)) & padding(<(2, 3)>)"),
        ((causal() & prefix(2)) | global_tokens(0), "(causal() & prefix(2)) | global_tokens([0])"),
        (~(causal() | prefix(2)), "~(causal() | prefix(2))"),
        (~causal(), "~causal()"),
        (causal().at(torch.tensor([[4]]), torch.arange(5)[None]), "(causal()).at((1, 1), (1, 5))"),
    ],
)
def test_a_mask_prints_as_the_expression_that_makes_it(mask, text):
    assert repr(mask) == text


def test_a_mask_draws_itself():
    drawn = ((sliding_window(1, 1) | global_tokens([0])) & padding(torch.tensor([[True, True, True, False]]))).draw(
        4, 4
    )
    assert drawn == (
        "(sliding_window(left=1, right=1) | global_tokens([0])) & padding(<(1, 4)>)\n# # # .\n# # # .\n# # # .\n# . # ."
    )
    assert causal(offset=1).draw(2, 3) == "causal(offset=1)\n# # .\n# # #"
    assert causal().draw(1) == "causal()\n#"


def test_a_drawing_shows_the_chosen_sample_and_refuses_one_that_is_not_there():
    assert padding(keep).draw(1, 3, batch=1) == "padding(<(2, 3)>)\n# . ."
    with refused("this mask has 2 samples; there is no number 2"):
        padding(keep).draw(1, 3, batch=2)


def test_a_large_mask_is_drawn_by_blocks_that_say_when_they_are_mixed():
    rows = causal().draw(128).splitlines()[1:]
    assert len(rows) == 64
    assert rows[0].split()[:2] == ["+", "."]
    assert rows[63].split()[-2:] == ["#", "+"]


def test_the_form_of_a_mask_is_known_without_reading_it():
    form = structure.of(causal() & sliding_window(left=4, right=2) & padding(keep))
    assert (form.left, form.right, form.offset, len(form.padding), form.rest) == (4, 0, 0, 1, ())
    several = structure.of(sliding_window(4, 2) & causal() & sliding_window(left=6) & sliding_window(right=1))
    assert (several.left, several.right) == (4, 0)
    assert structure.of(causal()).causal
    assert structure.of(causal() & sliding_window()).causal
    assert not structure.of(causal(offset=1)).causal
    assert not structure.of(causal() & padding(keep)).causal
    assert structure.of(None).empty
    assert structure.of(sliding_window()).empty
    assert structure.of(dense(torch.ones(3, 3) > 0)).empty
    assert not structure.of(~causal()).plain
    assert len(structure.of(documents(torch.zeros(1, 3, dtype=torch.int64))).documents) == 1
    bound = structure.of(causal().at(torch.tensor([[4]]), torch.arange(5)[None]))
    assert bound.bound
    assert not bound.empty


def test_a_band_that_reaches_beyond_the_call_hides_nothing_in_it():
    assert structure.of(causal(offset=4)).within(1, 5).empty
    assert not structure.of(causal(offset=3)).within(1, 5).empty
    assert structure.of(sliding_window(left=4, right=4)).within(5, 5).empty
    assert not structure.of(sliding_window(left=3, right=4)).within(5, 5).empty
    assert not structure.of(sliding_window(left=4, right=3)).within(5, 5).empty
    assert not structure.of(causal(offset=torch.tensor([4]))).within(1, 5).empty


def test_a_dense_mask_of_two_values_becomes_a_boolean_and_one_that_hides_nothing_is_known():
    low = torch.finfo(torch.float32).min
    mask = dense(torch.tensor([[0.0, low], [0.0, float("-inf")]]))
    assert mask.materialise(2, 2)[0, 0].tolist() == [[True, False], [True, False]]
    assert dense(torch.zeros(3, 3)).full
    assert not mask.full


def test_masks_are_pytrees_whose_tensors_are_their_leaves():
    offset = torch.tensor([1, 2])
    ids = torch.zeros(2, 5, dtype=torch.int64)
    mask = (causal(offset=offset) | prefix(3)) & documents(ids) & padding(keep)
    leaves, spec = pytree.tree_flatten(mask)
    assert [leaf is x for leaf, x in zip(leaves, (offset, ids, keep), strict=True)] == [True, True, True]
    again = pytree.tree_unflatten(leaves, spec)
    assert isinstance(again, Mask)
    assert repr(again) == repr(mask)
    assert pytree.tree_flatten(pytree.tree_unflatten([0, 0, 0], spec))[1] == spec  # placeholders keep their places


# ---------------------------------------------------------------------------------------------------- refusals


def test_padding_inside_or_is_refused_with_the_form_that_is_meant():
    window, tokens, pad = sliding_window(1, 1), global_tokens([0]), padding(keep)
    meant = "write (sliding_window(left=1, right=1) | global_tokens([0])) & padding(<(2, 3)>)"
    with refused(f"padding inside | would show padding to queries; {meant}"):
        window | tokens & pad
    with refused("padding inside | would show padding to queries; write causal() & padding(<(2, 3)>)"):
        causal() | pad
    with refused("padding inside | would show padding to queries; it joins other masks only with &"):
        pad | pad


def test_documents_inside_or_is_refused_too():
    ids = torch.zeros(3, dtype=torch.int64)
    with refused("documents inside | would show padding to queries; write causal() & documents(<(3,)>)"):
        documents(ids) | causal()


def test_padding_inside_not_is_refused_with_the_form_that_is_meant():
    with refused("padding inside ~ would show padding to queries; write ~causal() & padding(<(2, 3)>)"):
        ~(causal() & padding(keep))
    with refused("padding inside ~ would show padding to queries; it joins other masks only with &"):
        ~padding(keep)


def test_and_or_not_of_python_are_refused():
    with refused("a mask has no truth value; combine masks with &, | and ~, not with and, or, not"):
        causal() and padding(keep)


def test_a_tensor_beside_a_mask_is_refused_with_dense():
    with refused("& joins two masks, got Tensor; wrap it in dense(...)"):
        causal() & (torch.ones(3, 3) > 0)
    with refused("| joins two masks, got int"):
        causal() | 3


def test_two_offsets_in_one_mask_are_refused():
    with refused("one mask has one offset, got 2 and 3; give it to one part only, it holds for all"):
        causal(offset=2) & sliding_window(1, offset=3)
    with refused("one mask has one offset, got a tensor and 3; give it to one part only, it holds for all"):
        causal(offset=torch.tensor([2])) & sliding_window(1, offset=3)


def test_binding_twice_or_beside_an_offset_is_refused():
    row, keys = torch.tensor([[2]]), torch.arange(3)[None]
    with refused("this mask is bound to positions already; bind once, where the cache is"):
        causal().at(row, keys).at(row, keys)
    with refused("causal(offset=1) has an offset, and a cache supplies positions; leave offset away"):
        causal(offset=1).at(row, keys)
    with refused("a mask that is bound to positions is not combined; combine first, bind with .at(...) last"):
        causal().at(row, keys) & prefix(1)
    with refused("a mask that is bound to positions is not inverted; invert first, bind with .at(...) last"):
        ~causal().at(row, keys)
    with refused("causal(offset=1) says already where its queries stand; leave its offset away"):
        causal(offset=1).starting_at(2)
    with refused("query_positions must be integers (B or 1, N), got torch.float32 of shape (1, 1)", ShapeError):
        causal().at(row.float(), keys)
    with refused("key_positions must be integers (B or 1, N), got torch.int64 of shape (3,)", ShapeError):
        causal().at(row, keys[0])


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("causal", causal()),
        ("sliding_window", sliding_window(1, 1)),
        ("dilated", dilated(2, 1, 1)),
        ("documents", documents(torch.zeros(5, dtype=torch.int64))),
        ("blocks", blocks(torch.ones(3, 3) > 0, size=2)),
    ],
)
def test_different_lengths_without_an_offset_are_refused_with_both_alignments(name, mask):
    with refused(
        f"{name}() with 3 queries and 5 keys: say where query 0 stands, {name}(..., offset=2) for the last 3 "
        "(bottom-right) or offset=0 for the first (top-left)"
    ):
        mask.materialise(3, 5)


def test_global_rows_need_an_offset_and_columns_do_not():
    with refused(
        "global_tokens() with 3 queries and 5 keys: say where query 0 stands, global_tokens(..., offset=2) for the last "
        "3 (bottom-right) or offset=0 for the first (top-left); queries=False keeps the columns only"
    ):
        global_tokens([0]).materialise(3, 5)
    assert global_tokens([0], queries=False).materialise(3, 5)[0, 0, 0].tolist() == [True] + [False] * 4


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: sliding_window(-1), "left of sliding_window() must be None or an int >= 0, got -1"),
        (lambda: sliding_window(1, True), "right of sliding_window() must be None or an int >= 0, got True"),
        (lambda: sliding_window(1.5), "left of sliding_window() must be None or an int >= 0, got 1.5"),
        (lambda: dilated(0), "step of dilated() must be an int >= 1, got 0"),
        (lambda: dilated(1, -2), "left of dilated() must be None or an int >= 0, got -2"),
        (lambda: causal(offset=1.0), "offset of causal() must be an int or an integer tensor (B,), got float"),
        (
            lambda: causal(offset=torch.ones(2, 2)),
            "offset of causal() must be an int or an integer tensor (B,), got torch.float32 of shape (2, 2)",
        ),
        (lambda: prefix(-1), "n of prefix() must be an int >= 0 or an integer tensor (B,), got -1"),
        (
            lambda: prefix(torch.ones(2)),
            "n of prefix() must be an int or an integer tensor (B,), got torch.float32 of shape (2,)",
        ),
        (lambda: global_tokens([-1]), "global_tokens() takes absolute positions >= 0, got [-1]"),
        (lambda: padding(), "padding() takes keep or lengths, and exactly one of them"),
        (lambda: padding(keep, lengths=[1, 2]), "padding() takes keep or lengths, and exactly one of them"),
        (lambda: padding([True]), "keep of padding() must be a bool tensor (B, S), got list"),
        (
            lambda: padding(keep.long()),
            "keep of padding() must be bool (B, S), True = real key, got torch.int64: say which value is real, "
            "padding(x == 1), or from_hf(x) for a Hugging Face mask; lengths go in as padding(lengths=x)",
        ),
        (lambda: padding(keep[0]), "keep of padding() must be (B, S), got shape (3,)"),
        (lambda: padding(lengths=[[1]]), "lengths of padding() must be (B,), got shape (1, 1)"),
        (
            lambda: padding(lengths=[1.0, float("nan")]),
            "lengths of padding() has NaN at sample 1; give whole numbers",
        ),
        (lambda: padding(lengths=[1.0, 2.0]), "lengths of padding() must be integers, got torch.float32"),
        (lambda: padding(lengths=[3, -2]), "lengths of padding() must not be negative, got -2"),
        (
            lambda: documents(torch.ones(2)),
            "ids of documents() must be an integer tensor (B, S) or (S,), got torch.float32 of shape (2,)",
        ),
        (lambda: documents([1, 2]), "ids of documents() must be an integer tensor (B, S) or (S,), got list"),
        (
            lambda: blocks(torch.ones(2, 2)),
            "layout of blocks() must be bool (M, N) or 4-D, got torch.float32 of shape (2, 2)",
        ),
        (lambda: blocks([[True]]), "layout of blocks() must be bool (M, N) or 4-D, got list"),
        (lambda: blocks(torch.ones(2, 2) > 0, size=0), "size of blocks() must be None or an int >= 1, got 0"),
        (lambda: dense([True]), "a mask is a regard.mask.Mask or a bool tensor, got list"),
        (
            lambda: dense(torch.tensor([[0.0, 0.5]])),
            "the mask is torch.float32 with the value 0.5, which neither attends (0) nor hides (<= -80); scores to add "
            "go in as bias=, a boolean mask says True = attend",
        ),
    ],
)
def test_constructors_refuse_what_is_unclear(make, text):
    with refused(text):
        make()


def test_masks_that_do_not_cover_the_call_are_refused_with_the_numbers():
    with refused("keep of padding() covers 3 keys, but the call has 5", ShapeError):
        padding(keep).materialise(3, 5)
    with refused("ids of documents() covers 4 keys, but the call has 5", ShapeError):
        documents(torch.zeros(4, dtype=torch.int64)).materialise(5, 5)
    with refused("keep of padding() is for 2 samples, but the call has 3", ShapeError):
        padding(keep).materialise(3, 3, batch=3)
    with refused("lengths of padding() is for 2 samples, but the call has 3", ShapeError):
        padding(lengths=[1, 1]).materialise(3, 3, batch=3)
    with refused("n of prefix() is for 2 samples, but the call has 3", ShapeError):
        prefix(torch.tensor([1, 1])).materialise(3, 3, batch=3)
    with refused("offset of causal(offset=<(2,)>) is for 2 samples, but the call has 3", ShapeError):
        causal(offset=torch.tensor([1, 1])).materialise(3, 3, batch=3)
    with refused("blocks() covers 2 x 2 keys, but the call has 5", ShapeError):
        blocks(torch.ones(2, 2) > 0, size=2).materialise(5, 5)
    with refused("2 x 2 blocks do not divide 5 queries and 4 keys evenly; give size=", ShapeError):
        blocks(torch.ones(2, 2) > 0).materialise(5, 4)
    with refused("the mask is (3, 4), but the call has 3 queries and 5 keys", ShapeError):
        dense(torch.ones(3, 4) > 0).materialise(3, 5)
    with refused("the mask is for 2 heads, but the call has 3 heads".replace("3 heads", "3"), ShapeError):
        dense(torch.ones(1, 2, 3, 3) > 0).materialise(3, 3, heads=3)


def test_masks_that_do_not_cover_a_cache_are_refused_with_the_numbers():
    row, keys = torch.tensor([[4]]), torch.arange(5)[None]
    with refused("keep of padding() covers 3 keys, but 5 are stored; it must cover all keys so far", ShapeError):
        padding(keep).at(row, keys, length=5).materialise(1, 5)
    with refused("the mask covers 3 keys, but 5 are stored; it must cover all keys so far", ShapeError):
        dense(torch.ones(1, 3) > 0).at(row, keys, length=5).materialise(1, 5)
    with refused("blocks() under a cache needs size=, the tokens per block"):
        blocks(torch.ones(1, 1) > 0).at(row, keys).materialise(1, 5)
    with refused("key_positions has 5 entries, but the call has 6", ShapeError):
        causal().at(row, keys).materialise(1, 6)
    with refused("query_positions is for 2 samples, but the call has 3", ShapeError):
        causal().at(row.expand(2, 1), keys).materialise(1, 5, batch=3)
