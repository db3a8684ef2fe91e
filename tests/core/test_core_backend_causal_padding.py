"""Causal with padding: a key mask beside the causal flag, equal to the public way, and no T x S tensor."""

import pytest
import torch
from memory import extra_mebibytes

import regard
from regard.core.backends import kernel
from regard.mask import causal, padding

CALL = """
import torch, regard
from regard.mask import causal, padding
generator = torch.Generator().manual_seed(0)
query, key, value = (torch.randn(1, 2, 4096, 32, generator=generator).requires_grad_() for _ in range(3))
mask = causal() & padding(lengths=[3000])
regard.attention(query[:, :, :64], key[:, :, :64], value[:, :, :64], mask=causal() & padding(lengths=[30])).sum().backward()
def run():
    regard.attention(query, key, value, mask=mask).sum().backward()
"""


def made(dtype=torch.float64, heads=4, kv_heads=2, value_dim=4, T=7):
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, heads, T, 4), (3, kv_heads, T, 4), (3, kv_heads, T, value_dim))
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


def results(tensors, mask):
    output = regard.attention(*tensors, mask=mask, backend="sdpa")
    return [output, *torch.autograd.grad(output.square().sum(), tensors)]


KEEP = torch.tensor([[1, 1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]]) > 0  # the last sees nothing


@pytest.mark.skipif(not kernel.KNOWN, reason="this torch has no such kernel")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value_dim", [3, 4, 6])
def test_the_private_operator_and_the_public_way_give_the_same(monkeypatch, dtype, value_dim):
    mask = causal() & padding(KEEP)
    tensors = made(dtype, value_dim=value_dim)
    asked = [
        t.detach() for t in tensors
    ]  # with gradients, small calls in 16 bits may take another backend by themselves
    assert "beside the causal flag" in regard.explain_backend(*asked, mask=mask).repairs[-1]
    private = results(tensors, mask)
    monkeypatch.setattr(kernel, "KNOWN", False)
    assert "written out as T x S" in regard.explain_backend(*asked, mask=mask).repairs[-1]
    for one, other in zip(private, results(tensors, mask), strict=True):
        torch.testing.assert_close(one, other)


def test_under_autocast_the_kernel_gets_the_dtype_of_autocast():
    tensors = made(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert regard.attention(*tensors, mask=causal() & padding(KEEP)).dtype == torch.bfloat16


def test_a_probe_that_fails_says_that_the_operator_is_not_known(monkeypatch):
    monkeypatch.setattr(kernel, "forward", lambda *given, **named: (torch.zeros(1, 1, 6, 2), torch.zeros(1, 1, 6)))
    assert not kernel._probe()


def test_no_tensor_of_queries_by_keys_appears():
    table = 4096 * 4096 / 2**20  # of one byte per pair; scores would be four times as much for each head
    assert extra_mebibytes(CALL) < table
