"""Row tiles are the reference, forward and backward, whatever the call has; and hold no T x S tensor that was not given."""

import pytest
import torch
from grid_of_calls import make
from memory import extra_mebibytes
from test_core_attention_backends import allowed, run

import regard
from regard.core import tiled as tiles
from regard.core.backends import tiled as tiled_backend
from regard.mask import causal

COUNT, CHUNK = 600, 60


@pytest.fixture(autouse=True)
def tiles_of_a_few_rows(monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 8)
    monkeypatch.setattr(tiles, "FEWEST", 2)


@pytest.mark.parametrize("chunk", range(COUNT // CHUNK))
def test_tiles_are_the_reference_forward_and_backward(chunk):
    for number in range(10_000 + chunk * CHUNK, 10_000 + (chunk + 1) * CHUNK):
        call = make(number)
        tensors, arguments, dtype = call.tensors, call.arguments, call.tensors["query"].dtype
        shape = (*tensors["query"].shape[:3], tensors["value"].shape[3])
        upstream = torch.randn(shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        upstream = upstream.to(dtype).double()
        truth = run(regard.reference.attention, {n: x.double() for n, x in tensors.items()}, upstream, **arguments)
        limit = allowed(truth, dtype, tensors, upstream, arguments)
        for name, x in run(regard.attention, tensors, upstream, **arguments, backend="tiled").items():
            error = float((x - truth[name]).abs().max())
            assert error <= limit[name], f"call {number}, {name}: {error:.3g} > {limit[name]:.3g}: {call}"


def made(T=12, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 2, T, 4, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


def test_dropout_in_tiles_drops_the_same_weights_forward_and_backward():
    tensors = [x.detach().double().requires_grad_() for x in made(5)]

    def call(query, key, value):
        torch.manual_seed(3)
        return regard.attention(query, key, value, mask=causal(), dropout=0.4, backend="tiled")

    assert torch.equal(call(*tensors), call(*tensors))
    assert torch.autograd.gradcheck(call, tensors)


def test_dropout_in_tiles_keeps_the_expected_output_and_drops_the_share_that_was_asked():
    query, key, _ = made(64)
    value = torch.eye(64)[None, None].expand(2, 2, 64, 64)
    torch.manual_seed(0)
    many = torch.stack([regard.attention(query, key, value, dropout=0.25, backend="tiled") for _ in range(60)]).detach()
    weights = regard.attention_weights(query, key).detach()
    dropped = float((many == 0).double().mean())
    assert abs(dropped - 0.25) < 0.005  # 480,000 draws: eight standard errors
    error = (many.mean(0) - weights).abs() / (weights * (0.25 / 0.75 / 60) ** 0.5)
    assert float(error.mean()) == pytest.approx(0.8, abs=0.1)  # the mean of |normal| is 0.798
    assert (regard.attention(query, key, value, dropout=1.0, backend="tiled") == 0).all()


def test_small_calls_and_transforms_are_left_to_the_open_form(monkeypatch):
    assert "576 weights are few" in regard.explain_backend(*made(), softcap=2.0).reasons["tiled"]
    monkeypatch.setattr(tiled_backend, "LEAST", 0)
    choice = regard.explain_backend(*made(), softcap=2.0)
    assert choice.name == "tiled"
    assert "second derivatives" in choice.repairs[0]


CALL = """
import torch, regard
from regard.mask import causal, prefix, padding
generator = torch.Generator().manual_seed(0)
query, key, value = (torch.randn(1, 2, {T}, 16, generator=generator).requires_grad_() for _ in range(3))
sink = torch.zeros(2, requires_grad=True)
def go(query, key, value):
    regard.attention(query, key, value, {arguments}).sum().backward()
go(*(x[:, :, :2048] for x in (query, key, value)))
def run():
    go(query, key, value)
"""


@pytest.mark.parametrize("arguments", ["softcap=5.0", "sink=sink, mask=causal()", "dropout=0.1"])
def test_no_tensor_of_queries_by_keys_appears(arguments):
    table = 8192 * 8192 / 2**20  # of one byte per pair, 64; tiles take about as much
    assert extra_mebibytes(CALL.format(T=8192, arguments=arguments)) < 2 * table
