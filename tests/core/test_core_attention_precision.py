"""16-bit inputs: what is summed, scaled and added in more bits than they have."""

import pytest
import torch

import regard
from regard.mask import causal

BACKENDS = ("sdpa", "open")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_softmax_of_16_bit_inputs_is_summed_in_32_bits(dtype):
    ones = torch.zeros(1, 1, 1, 4, dtype=dtype)
    value = torch.ones(
        1, 1, 5000, 1, dtype=dtype
    )  # 5,000 equal weights: a 16-bit sum of them would stop at 256 or 2,048
    for backend in BACKENDS:
        output = regard.attention(ones, torch.zeros(1, 1, 5000, 4, dtype=dtype), value, backend=backend)
        assert abs(float(output) - 1.0) < 0.01


def test_large_scores_in_float16_do_not_overflow():
    big = torch.full((1, 1, 2, 64), 40.0, dtype=torch.float16)  # q . k = 102,400, beyond float16; scaled it is 12,800
    for backend in BACKENDS:
        assert regard.attention(big, big, big, mask=causal(), backend=backend).isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_float32_bias_is_not_rounded_beside_16_bit_queries(dtype, backend):
    zeros = torch.zeros(1, 1, 1, 4, dtype=dtype)
    value = torch.eye(2, dtype=dtype)[None, None]
    bias = torch.tensor([[3000.0, 3000.4]])  # one number in 16 bits
    weights = regard.attention(zeros, torch.zeros(1, 1, 2, 4, dtype=dtype), value, bias=bias, backend=backend)
    assert weights.flatten().tolist() == pytest.approx(bias[0].softmax(-1).tolist(), abs=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bias_dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_bias_may_have_another_float_dtype(dtype, bias_dtype, backend):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 2, 4, 3, generator=generator).to(dtype)
    bias = torch.randn(4, 4, generator=generator).to(bias_dtype)
    output = regard.attention(x, x, x, bias=bias, mask=causal(), backend=backend)
    truth = regard.reference.attention(x, x, x, bias=bias, mask=causal())
    assert output.dtype == dtype
    assert (output.double() - truth).abs().max() <= 8 * torch.finfo(dtype).eps  # sums of 4 terms up to 2


@pytest.mark.parametrize("mask", [None, causal()])
def test_under_autocast_the_dtype_does_not_depend_on_the_mask(mask):
    x = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert regard.attention(x, x, x, mask=mask).dtype == torch.bfloat16
