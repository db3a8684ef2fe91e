"""What MultiHeadAttention refuses, word by word."""

import pytest
import torch
from torch import nn

from regard.core.errors import CacheError, DtypeError, MaskError, ShapeError
from regard.nn import MultiHeadAttention

B, T, E = 2, 5, 24


REFUSED = {  # what is called -> exception, words
    "heads that do not divide": (
        lambda: MultiHeadAttention(64, 8, num_kv_heads=3),
        (ShapeError, "8 query heads cannot share 3 key heads; num_kv_heads must divide num_heads"),
    ),
    "a width that does not split": (
        lambda: MultiHeadAttention(64, 7),
        (
            ShapeError,
            "embed_dim=64 cannot be split into 7 heads; choose a number of heads that divides it, or give head_dim",
        ),
    ),
    "no heads": (
        lambda: MultiHeadAttention(64, 0),
        (ShapeError, "embed_dim=64, num_heads=0, num_kv_heads=0 and head_dim=None must be at least 1"),
    ),
    "a dropout above 1": (
        lambda: MultiHeadAttention(64, 8, dropout=1.5),
        (ShapeError, "dropout=1.5 is a probability between 0 and 1"),
    ),
    "two axes": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(T, E)),
        (ShapeError, "query has shape (5, 24); this layer takes (batch, length, 24)"),
    ),
    "another width": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(B, T, 32)),
        (ShapeError, "query has shape (2, 5, 32); this layer takes (batch, length, 24)"),
    ),
    "self-attention where keys have another width": (
        lambda: MultiHeadAttention(E, 4, key_dim=10)(torch.zeros(B, T, E)),
        (ShapeError, "key has shape (2, 5, 24); this layer takes (batch, length, 10)"),
    ),
    "not a tensor": (
        lambda: MultiHeadAttention(E, 4)([1.0]),
        (DtypeError, "query must be a tensor (batch, length, 24), got list"),
    ),
    "another dtype": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(B, T, E, dtype=torch.float64)),
        (DtypeError, "query is torch.float64 and the layer torch.float32; convert one with .to(dtype)"),
    ),
    "another device": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(B, T, E, device="meta")),
        (DtypeError, "query is on meta and the layer on cpu; move one with .to(device)"),
    ),
    "batches that differ": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(2, T, E), torch.zeros(3, T, E)),
        (ShapeError, "query, key and value have 2, 3 and 3 samples; they must have equally many"),
    ),
    "keys without values": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(2, T, E), torch.zeros(2, 4, E), torch.zeros(2, 3, E)),
        (ShapeError, "key has 4 tokens and value 3; each key needs its value"),
    ),
    "a value without key": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(2, T, E), value=torch.zeros(2, 3, E)),
        (ShapeError, "a value came without a key; give both, or neither for self-attention"),
    ),
    "positions of a cross-attention": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(2, T, E), torch.zeros(2, 3, E), positions=torch.arange(T)[None]),
        (
            ShapeError,
            "positions are for self-attention, where queries and keys stand alike; leave key and value out",
        ),
    ),
    "the cache of a cross-attention": (
        lambda: MultiHeadAttention(E, 4)(
            torch.zeros(2, T, E), torch.zeros(2, 3, E), cache=MultiHeadAttention(E, 4).new_cache(2, 9)
        ),
        (CacheError, "a cache is for self-attention, whose keys grow with the queries; leave key and value out"),
    ),
    "positions of another length": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(2, T, E), positions=torch.arange(4)[None]),
        (
            ShapeError,
            "positions have shape (1, 4); 2 sequences of 5 tokens need (2, 5), or (1, 5) where all stand alike",
        ),
    ),
    "float positions": (
        lambda: MultiHeadAttention(E, 4)(torch.zeros(2, T, E), positions=torch.zeros(1, T)),
        (DtypeError, "positions are integers, one for each token; got torch.float32"),
    ),
    "a cut projection": (
        lambda: cut("k_proj", 5)(torch.zeros(2, T, E)),
        (ShapeError, "k_proj makes 5 channels, which are no whole number of heads of width 6"),
    ),
    "cut keys but whole values": (
        lambda: cut("k_proj", 6)(torch.zeros(2, T, E)),
        (
            ShapeError,
            "the projections make 4 query heads, 1 key heads and 4 value heads; keys and values need equally many, and "
            "that number must divide the query heads",
        ),
    ),
}


def cut(name: str, width: int) -> MultiHeadAttention:
    layer = MultiHeadAttention(E, 4)
    setattr(layer, name, nn.Linear(E, width))
    return layer


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_meant_is_refused_with_the_numbers_and_the_way_out(name):
    call, (kind, words) = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words


@pytest.mark.parametrize("mask", [torch.zeros(T, T), torch.ones(B, T).bool(), torch.ones(T, T, dtype=torch.int64)])
def test_a_mask_of_unclear_meaning_is_refused(mask):
    with pytest.raises((MaskError, ShapeError), match=r"mask"):
        MultiHeadAttention(E, 4)(torch.zeros(B, T, E), mask=mask)
