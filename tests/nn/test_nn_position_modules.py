"""Learned positions, ALiBi and relative bias as modules."""

import pytest
import torch

from regard.core.errors import ShapeError
from regard.mask import causal
from regard.nn import AlibiBias, Learned, MultiHeadAttention, RelativeBias

B, T, E, HEADS = 2, 4, 16, 4


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_learned_positions_are_added_where_each_token_stands_and_not_to_padding():
    table = Learned(6, E)
    x = draws(B, T, E)
    assert torch.equal(table(x), x + table.table[:T])
    places = torch.tensor([[0, 1, 2, 5], [-1, -1, 0, 1]])
    expected = x.clone()
    for sample, token in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3)):
        expected[sample, token] += table.table[places[sample, token]]
    torch.testing.assert_close(table(x, places), expected, atol=0, rtol=0)


def test_a_learned_table_starts_small_and_normal():
    torch.manual_seed(0)  # the table draws from torch's own generator
    table = Learned(1000, E).table
    assert abs(table.mean()) < 0.001
    assert abs(table.std() - 0.02) < 0.001


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Learned(6, E)(torch.zeros(B, 7, E)), "7 tokens for a table of 6 places; make the table longer"),
        (
            lambda: Learned(6, E)(torch.zeros(B, T, 8)),
            "x has shape (2, 4, 8); this table takes (batch, length, 16)",
        ),
        (
            lambda: Learned(6, E)(torch.zeros(B, T, E), torch.zeros(3, T, dtype=torch.int64)),
            "positions have shape (3, 4); 2 sequences of 4 tokens need (2, 4), or (1, 4) where all stand alike",
        ),
        (lambda: Learned(0, E), "length=0 and embed_dim=16 must both be at least 1"),
        (lambda: RelativeBias(0), "num_heads=0 must be at least 1"),
        (lambda: AlibiBias(0), "alibi needs at least 1 head, got 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(call, words):
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == words


def test_alibi_makes_far_keys_count_less_and_depends_on_distance_alone():
    layer = MultiHeadAttention(E, HEADS, attention_bias=AlibiBias(HEADS), mask=causal()).eval()
    layer.q_proj.weight.data.zero_()  # all scores are equal but for the bias
    places = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8]])
    layer.q_proj.bias.data.zero_()
    weights = layer.inspect(draws(B, T, E), positions=places).weights
    ratio = weights[:, :, 3, 1:] / weights[:, :, 3, :-1]
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])  # the paper's for four heads
    torch.testing.assert_close(ratio, slopes.exp()[None, :, None].expand_as(ratio), atol=1e-5, rtol=0)


def test_relative_bias_equals_t5_of_hugging_face():
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5", reason="needs the extra hf")
    from transformers import T5Config

    for bidirectional in (True, False):
        config = T5Config(d_model=E, num_heads=HEADS, is_decoder=not bidirectional)
        theirs = modeling.T5Attention(config, has_relative_attention_bias=True)
        ours = RelativeBias(HEADS, bidirectional=bidirectional)
        ours.table.data = draws(32, HEADS)
        theirs.relative_attention_bias.weight.data = ours.table.data.clone()
        places = torch.arange(300)[None]
        assert torch.equal(ours(places, places), theirs.compute_bias(300, 300))


def test_relative_bias_learns_and_may_be_shared():
    shared = RelativeBias(HEADS)
    first = MultiHeadAttention(E, HEADS, attention_bias=shared)
    second = MultiHeadAttention(E, HEADS, attention_bias=shared)
    second(first(draws(B, T, E))).square().sum().backward()
    assert shared.table.grad is not None
    assert shared.table.grad.any()
    assert first.attention_bias.table is second.attention_bias.table
