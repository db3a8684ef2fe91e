"""to_int8: projections in 8 bits by torch or torchao; the error is measured, and the layer that was given is left alone."""

import importlib.util

import peers
import pytest
import torch

from regard import convert
from regard.core.errors import ConversionError
from regard.mask import causal
from regard.nn import MultiHeadAttention

E, HEADS = peers.E, peers.HEADS
BACKENDS = [
    "torch",
    pytest.param(
        "torchao", marks=pytest.mark.skipif(not importlib.util.find_spec("torchao"), reason="torchao is not installed")
    ),
]


def layer() -> MultiHeadAttention:
    return peers.filled(MultiHeadAttention(E, HEADS, num_kv_heads=2, mask=causal()))


@pytest.mark.filterwarnings("ignore")  # both packages warn of their own future
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", ["weights", "dynamic"])
def test_the_error_is_measured_and_small_and_a_cache_works(what, backend):
    given, x = layer(), peers.draws(2, 6, E, seed=1)
    before = {name: p.clone() for name, p in given.named_parameters()}
    small = convert.to_int8(given, what=what, backend=backend)
    report = convert.report(small)
    assert report.source == f"int8 {what} ({backend})"
    assert 1e-4 < report.difference < 0.2
    with torch.no_grad():
        assert (small(x) - given(x)).abs().amax() < 0.2
        cache = small.new_cache(2, 6)
        parts = [small(part, cache=cache) for part in x.split(2, dim=1)]
        if what == "weights":  # activations are rounded by what comes together
            torch.testing.assert_close(torch.cat(parts, dim=1), small(x), atol=1e-5, rtol=0)
    assert all(torch.equal(p, before[name]) for name, p in given.named_parameters())


def test_weights_alone_are_kept_as_int8_with_one_scale_per_channel():
    given = layer()
    small = convert.to_int8(given, backend="torch")
    kept = small.q_proj.parametrizations.weight
    assert kept.original0.dtype == torch.int8
    assert kept.original1.shape == (E, 1)
    step = given.q_proj.weight.abs().amax(dim=1, keepdim=True) / 127
    assert bool(((small.q_proj.weight - given.q_proj.weight).abs() <= step / 2 + 1e-7).all())


def test_words_that_are_none_are_refused():
    with pytest.raises(
        ConversionError, match='what is "weights" or "dynamic", backend "torchao" or "torch"; got \'static\''
    ):
        convert.to_int8(layer(), what="static")
    if importlib.util.find_spec("torchao") is None:
        with pytest.raises(ConversionError, match="torchao is not installed; install it with: pip install torchao"):
            convert.to_int8(layer(), backend="torchao")
