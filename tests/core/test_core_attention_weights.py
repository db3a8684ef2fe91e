"""attention_weights(): the weights that make the output, and only the rows and heads that are asked for."""

import pytest
import torch

import regard
from regard.mask import causal, dense, padding, sliding_window

generator = torch.Generator().manual_seed(0)
query = torch.randn(2, 4, 5, 6, generator=generator)
key = torch.randn(2, 2, 7, 6, generator=generator)
value = torch.randn(2, 2, 7, 3, generator=generator)
table = torch.rand(2, 4, 5, 7, generator=generator) > 0.4
MASKS = (
    None,
    causal(offset=2),
    padding(lengths=[0, 6]),
    dense(table),
    sliding_window(1, 1, offset=1) & dense(table[:1]),
)
EXTRAS = (
    {},
    {"softcap": 1.0},
    {"sink": torch.randn(4, generator=generator)},
    {"bias": torch.randn(4, 5, 7, generator=generator)[None], "scale": 0.3},
    {"bias": torch.randn(5, 7, generator=generator)},
)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("extra", EXTRAS)
def test_weights_are_those_of_the_reference_and_make_the_output(mask, extra):
    weights = regard.attention_weights(query, key, mask=mask, **extra)
    truth = regard.reference.attention_weights(query, key, mask=mask, **extra)
    torch.testing.assert_close(weights.double(), truth, atol=1e-6, rtol=0)
    output = weights @ value.repeat_interleave(2, dim=1)
    torch.testing.assert_close(output, regard.attention(query, key, value, mask=mask, **extra), atol=2e-6, rtol=0)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("rows", [None, [4], [3, 0, 3], torch.tensor([1, 2]), []])
@pytest.mark.parametrize("heads", [None, [2], torch.tensor([3, 0, 1])])
def test_chosen_rows_and_heads_are_those_of_the_whole(mask, extra, rows, heads):
    whole = regard.attention_weights(query, key, mask=mask, **extra)
    some = regard.attention_weights(query, key, mask=mask, **extra, queries=rows, heads=heads)
    wanted = whole if heads is None else whole[:, torch.as_tensor(heads)]
    wanted = wanted if rows is None else wanted[:, :, torch.as_tensor(rows, dtype=torch.int64)]
    torch.testing.assert_close(some, wanted, atol=1e-6, rtol=0)


def test_a_key_that_is_not_finite_shows_only_in_the_rows_that_see_it():
    bad = key.clone()
    bad[0, 0, 4] = float("nan")
    weights = regard.attention_weights(query, bad, mask=causal(offset=2))
    clean = regard.attention_weights(query, key, mask=causal(offset=2))
    assert torch.equal(weights[:, 2:], clean[:, 2:])
    assert torch.equal(weights[0, :2, :2], clean[0, :2, :2])
    assert weights[0, :2, 2:].isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_have_the_dtype_of_the_query(dtype):
    assert regard.attention_weights(query.to(dtype), key.to(dtype)).dtype == dtype


def test_weights_have_gradients():
    q, k = (x.double().requires_grad_() for x in (query, key))
    assert torch.autograd.gradcheck(
        lambda q, k: regard.attention_weights(q, k, mask=causal(offset=0), queries=[1, 3], heads=[2]), (q, k)
    )
