"""What a mask hides does nothing: NaN and inf at hidden keys, rows that see nothing, calls with nothing to see."""

import pytest
import torch

import regard
from regard.mask import blocks, causal, dense, documents, global_tokens, padding, prefix, sliding_window

T = 6
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
BACKENDS = ("sdpa", "open")
keep = torch.tensor([[True, True, True, False, True, False], [True, False, True, True, False, False]])
MASKS = {
    "causal": causal(),
    "causal before 0": causal(offset=-2),
    "window": sliding_window(1, 1),
    "window, samples apart": sliding_window(1, 1, offset=torch.tensor([0, 2])),
    "padding": padding(keep),
    "lengths": padding(lengths=[3, 5]),
    "causal and padding": causal() & padding(keep),
    "documents": documents(torch.tensor([0, 0, 1, 1, -1, -1])),
    "longformer": (sliding_window(1, 1) | global_tokens([0])) & padding(keep),
    "prefix": causal() | prefix(torch.tensor([2, 3])),
    "blocks": blocks(torch.eye(3) > 0),
    "dense": dense(torch.rand(T, T, generator=torch.Generator().manual_seed(0)) > 0.5),
    "dense per head": dense(torch.rand(2, 4, T, T, generator=torch.Generator().manual_seed(1)) > 0.5),
    "not": ~causal(),
    "bound": causal().at(torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([[3, 1, -1, 2, 9, 0]])),
}


def made(dtype=torch.float32, *, heads=4, kv_heads=2, queries=T, keys=T, batch=2):
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, heads, queries, 4), (batch, kv_heads, keys, 4), (batch, kv_heads, keys, 3))
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def poisoned(tensor, sample, head, key, value):
    clean = tensor.detach().clone()
    clean[sample, head, key, 1] = value
    return clean.requires_grad_()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["key", "value"])
def test_what_is_not_finite_touches_only_the_rows_that_see_it(name, value, where, backend):
    mask = MASKS[name]
    query, key, val = made()
    attend = mask.materialise(T, T, batch=2, heads=4).expand(2, 4, T, T)
    clean = regard.attention(query, key, val, mask=mask, backend=backend)
    for at in range(T):
        bad_key = poisoned(key, 1, 0, at, value) if where == "key" else key
        bad_value = poisoned(val, 1, 0, at, value) if where == "value" else val
        output = regard.attention(query, bad_key, bad_value, mask=mask, backend=backend)
        sees = torch.zeros(2, 4, T, dtype=torch.bool)
        sees[1, :2] = attend[1, :2, :, at]  # heads 0 and 1 read key head 0
        assert torch.equal(output[~sees], clean[~sees]) or torch.allclose(output[~sees], clean[~sees], atol=1e-6)
        assert output[sees].isnan().all()
        gradients = torch.autograd.grad(output[~sees].sum(), (query, bad_key, bad_value))
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_huge_finite_numbers_are_not_taken_for_infinite_ones(dtype, backend):
    query, key, _ = made(dtype)
    value = torch.full(
        (2, 2, T, 32), torch.finfo(dtype).max / 8, dtype=dtype
    )  # 6 keys of it are finite, 32 channels not
    output = regard.attention(query, key, value, mask=causal(), backend=backend)
    assert output.isfinite().all()


def test_without_a_mask_arithmetic_is_left_alone():
    query, key, value = made()
    output = regard.attention(query, key, poisoned(value, 0, 0, 2, float("inf")))
    assert output[0, :2, :, 1].isinf().all()
    assert output[0, :2, :, 0].isfinite().all()


def test_a_mask_that_hides_nothing_in_the_call_is_no_mask():
    query, key, value = made(queries=1)
    masked = regard.attention(query, key, value, mask=causal(offset=T - 1))
    assert torch.equal(masked, regard.attention(query, key, value))
    choice = regard.explain_backend(query, key, value, mask=causal(offset=T - 1))
    assert choice.repairs[0] == "mask dropped: it hides nothing in this call"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["train", "no_grad", "inference"])
@pytest.mark.parametrize("biased", [False, True])
def test_a_row_that_sees_nothing_is_zero_and_has_gradient_zero(dtype, backend, mode, biased):
    attend = torch.rand(2, 4, T, T, generator=torch.Generator().manual_seed(3)) > 0.3
    attend[0, :, 2] = False  # one row of one sample
    attend[1] = False  # a whole sample
    tensors = made(dtype)
    bias = torch.randn(1, 4, T, T, generator=torch.Generator().manual_seed(4)).to(dtype) if biased else None
    with torch.no_grad() if mode == "no_grad" else torch.inference_mode(mode == "inference"):
        output = regard.attention(*tensors, mask=attend, bias=bias, backend=backend)
    assert (output[0, :, 2] == 0).all()
    assert (output[1] == 0).all()
    assert output.isfinite().all()
    assert (output[0, :, 0] != 0).any()
    if mode == "train":
        gradients = torch.autograd.grad(output.float().square().sum() + output.float().sum(), tensors)
        assert all(g.isfinite().all() for g in gradients)
        assert (gradients[0][0, :, 2] == 0).all()
        assert all((g[1] == 0).all() for g in gradients)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bias_that_is_minus_infinity_everywhere_is_a_row_that_sees_nothing(backend):
    tensors = made()
    bias = torch.zeros(T, T)
    bias[3] = float("-inf")
    output = regard.attention(*tensors, bias=bias, backend=backend)
    assert (output[:, :, 3] == 0).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(output.sum(), tensors))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bias_that_is_nan_where_the_mask_hides_does_nothing(backend):
    tensors = made()
    mask = sliding_window(1, 1)
    bias = torch.zeros(T, T).masked_fill(~mask.materialise(T, T)[0, 0], float("nan"))
    output = regard.attention(*tensors, mask=mask, bias=bias, backend=backend)
    torch.testing.assert_close(output, regard.attention(*tensors, mask=mask, backend=backend))


def test_a_sink_takes_all_the_weight_of_a_row_that_sees_nothing():
    attend = torch.ones(T, T) > 0
    attend[1] = False
    query, key, value = made()
    sink = torch.zeros(4, requires_grad=True)
    output = regard.attention(query, key, value, mask=attend, sink=sink)
    assert (output[:, :, 1] == 0).all()
    assert torch.autograd.grad(output.sum(), sink)[0].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", [None, causal(offset=0), padding(torch.ones(2, 0) > 0)])
def test_without_keys_the_output_is_zero(dtype, mask):
    tensors = made(dtype, keys=0)
    output = regard.attention(*tensors, mask=mask)
    assert output.shape == (2, 4, T, 3)
    assert (output == 0).all()
    assert (torch.autograd.grad(output.sum(), tensors[0])[0] == 0).all()
    with pytest.raises(regard.core.errors.BackendError, match="there are no keys; the open form gives 0"):
        regard.attention(*tensors, mask=mask, backend="sdpa")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [{"batch": 0}, {"queries": 0}, {"heads": 0, "kv_heads": 1}])
@pytest.mark.parametrize("mask", [None, causal(offset=0), dense(torch.ones(1, T) > 0) & causal(offset=1)])
def test_an_empty_batch_and_no_queries_give_an_empty_output(sizes, mask, backend):
    tensors = made(**sizes)
    output = regard.attention(*tensors, mask=mask, backend=backend)
    assert output.shape == (*tensors[0].shape[:3], 3)
    assert all((g == 0).all() for g in torch.autograd.grad(output.sum(), tensors))


def test_dropout_drops_weights_with_torchs_generator_and_only_when_asked():
    query, key, value = made()
    torch.manual_seed(0)
    first = regard.attention(query, key, value, mask=causal(), dropout=0.5)
    torch.manual_seed(0)
    assert torch.equal(first, regard.attention(query, key, value, mask=causal(), dropout=0.5))
    assert not torch.equal(first, regard.attention(query, key, value, mask=causal(), dropout=0.5))
    assert (regard.attention(query, key, value, dropout=1.0) == 0).all()
    state = torch.get_rng_state()
    regard.attention(query, key, value, mask=causal())
    assert torch.equal(state, torch.get_rng_state())


def test_dropout_keeps_the_expected_output():
    query, key, value = made()
    torch.manual_seed(0)
    many = torch.stack([regard.attention(query, key, value, dropout=0.2) for _ in range(2000)])
    error = (many.mean(0) - regard.attention(query, key, value)).abs().max()
    assert error < 0.05  # six standard errors of 2,000 draws of weights up to 0.9, values up to 2.5
