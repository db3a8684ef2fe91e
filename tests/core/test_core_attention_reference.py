"""The specification itself, against attention written with Python's own numbers."""

import math

import pytest
import torch

from regard.core import reference
from regard.mask import causal, dense


def by_hand(query, key, value, attend, bias, scale, softcap, sink):
    """One row of one head: lists of floats in, list of floats out."""
    scores = [sum(q * k for q, k in zip(query, row, strict=True)) * scale for row in key]
    if softcap is not None:
        scores = [softcap * math.tanh(score / softcap) for score in scores]
    weights = [math.exp(s + b) if seen else 0.0 for s, b, seen in zip(scores, bias, attend, strict=True)]
    total = sum(weights) + (0.0 if sink is None else math.exp(sink))
    if total == 0.0:
        return [0.0] * len(value[0])
    return [sum(w * row[c] for w, row in zip(weights, value, strict=True)) / total for c in range(len(value[0]))]


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("sinks", [None, [0.3, -1.0, 2.0, 0.0]])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_the_reference_is_the_formula(softcap, sinks, scale):
    generator = torch.Generator().manual_seed(0)
    B, H, kv_heads, T, S, D, Dv = 2, 4, 2, 3, 5, 3, 2
    shapes = ((B, H, T, D), (B, kv_heads, S, D), (B, kv_heads, S, Dv), (B, H, T, S))
    query, key, value, bias = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    attend = torch.rand(B, H, T, S, generator=generator) > 0.4
    attend[0, 1, 2] = False
    sink = None if sinks is None else torch.tensor(sinks)
    ours = reference.attention(
        query, key, value, mask=dense(attend), bias=bias, scale=scale, softcap=softcap, sink=sink
    )
    factor = 1 / math.sqrt(D) if scale is None else scale
    for b, h, t in ((b, h, t) for b in range(B) for h in range(H) for t in range(T)):
        wanted = by_hand(
            query[b, h, t].tolist(),
            key[b, h // 2].tolist(),
            value[b, h // 2].tolist(),
            attend[b, h, t].tolist(),
            bias[b, h, t].tolist(),
            factor,
            softcap,
            None if sinks is None else float(torch.tensor(sinks)[h]),
        )
        assert ours[b, h, t].tolist() == pytest.approx(wanted, abs=1e-12)


def test_the_reference_is_float64_whatever_it_is_given():
    x = torch.randn(1, 1, 3, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert reference.attention(x, x, x, mask=causal()).dtype == torch.float64


def test_the_weights_of_the_reference_make_its_output():
    x = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = reference.attention_weights(x, x, mask=causal())
    torch.testing.assert_close(weights @ x, reference.attention(x, x, x, mask=causal()))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 3, dtype=torch.float64))
