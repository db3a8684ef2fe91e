"""What holds for each of our sequence modules: saving, copying, dtypes, gradients, compiling, exporting."""

import copy
import io

import pytest
import torch
from our_modules import CROSS_MODULES, OUR_MODULES, E
from torch import nn

from regard.nn import multi_head

FLOAT32 = 1e-5  # two orders of the same sums, two layers deep

QUICK = (
    "attention grouped",
    "block gated",
    "block with cross-attention",
)  # compiled in the first tier; the rest in --slow

every = pytest.mark.parametrize("name", [*OUR_MODULES, *CROSS_MODULES])
every_by_tier = pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in (*OUR_MODULES, *CROSS_MODULES)]
)


def draws(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def built(name: str) -> nn.Module:
    """The module in eval mode with fixed random parameters."""
    module = (OUR_MODULES | CROSS_MODULES)[name]()
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = draws(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5
    return module.eval()


def inputs(name: str, batch: int = 2, length: int = 5, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    x = draws(batch, length, E, seed=7, dtype=dtype)
    return (x, draws(batch, length + 2, E, seed=8, dtype=dtype)) if name in CROSS_MODULES else (x,)


@every
def test_a_state_that_was_saved_makes_the_same_module(name):
    module, fresh = built(name), (OUR_MODULES | CROSS_MODULES)[name]().eval()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file))
    assert torch.equal(fresh(*inputs(name)), module(*inputs(name)))
    pointers = [tensor.data_ptr() for tensor in module.state_dict().values()]
    assert len(set(pointers)) == len(pointers)  # safetensors refuses tensors that share memory


@every
def test_a_deep_copy_computes_the_same_and_shares_nothing(name):
    module = built(name)
    other = copy.deepcopy(module)
    before = module(*inputs(name))
    assert torch.equal(other(*inputs(name)), before)
    for parameter in other.parameters():
        parameter.data.zero_()
    assert torch.equal(module(*inputs(name)), before)


@every
def test_only_dropout_draws_and_only_in_training(name):
    module = built(name)
    state = torch.get_rng_state()
    first = module(*inputs(name))
    assert torch.equal(module(*inputs(name)), first)
    assert torch.equal(torch.get_rng_state(), state)
    module.train()
    again = module(*inputs(name))
    if "dropout" in name or name == "block causal":
        assert not torch.equal(again, first)
    else:
        torch.testing.assert_close(again, first, atol=FLOAT32, rtol=0)
        assert torch.equal(torch.get_rng_state(), state)


@every
def test_gradients_are_right_in_float64(name):
    module = built(name).double()
    given = tuple(x.requires_grad_() for x in inputs(name, batch=1, length=3, dtype=torch.float64))
    assert torch.autograd.gradcheck(module, given, fast_mode=True)
    module(*given).square().sum().backward()
    missing = [
        key for key, parameter in module.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ]
    assert all(key.endswith("k_proj.bias") for key in missing)  # a shift of all scores of a row changes nothing


def plain_attention(query, key, value, *, mask, bias, scale, softcap, dropout):
    """Attention as one writes it by hand, every step in the dtype of its inputs; no row is hidden here."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores = scores if bias is None else scores + bias.to(scores.dtype)
    if mask is not None:
        scores = scores.masked_fill(~mask.materialise(*scores.shape[-2:]), float("-inf"))
    return scores.softmax(dim=-1) @ value


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_errs_at_most_twice_as_much_as_with_attention_by_hand(name, dtype, monkeypatch):
    module = built(name).to(dtype)
    given = tuple(x.to(dtype) for x in inputs(name, batch=4, length=24))
    exact = copy.deepcopy(module).double()(*(x.double() for x in given))
    error = (module(*given).double() - exact).abs()
    assert module(*given).dtype == dtype
    monkeypatch.setattr(multi_head, "attention", plain_attention)
    allowed = (module(*given).double() - exact).abs()
    assert allowed.max() > 0
    assert error.max() <= 2 * allowed.max()
    assert error.mean() <= 2 * allowed.mean()


@every_by_tier
def test_compiled_in_one_graph_it_computes_the_same(name):
    torch._dynamo.reset()
    module = built(name)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch, length in ((2, 5), (3, 7)):
        given = inputs(name, batch, length)
        torch.testing.assert_close(compiled(*given), module(*given), atol=FLOAT32, rtol=0)


@every_by_tier
def test_exported_with_free_batch_and_length_it_computes_the_same(name):
    module = built(name)
    batch, length, other = torch.export.Dim("batch"), torch.export.Dim("length"), torch.export.Dim("other")
    free = ({0: batch, 1: length}, {0: batch, 1: other})[: len(inputs(name))]
    exported = torch.export.export(module, inputs(name), dynamic_shapes=free).module()
    for size in ((2, 5), (3, 7), (1, 9)):
        given = inputs(name, *size)
        torch.testing.assert_close(exported(*given), module(*given), atol=FLOAT32, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # inductor's own, where it is imported
@pytest.mark.parametrize("name", ["attention grouped", "attention rotary", "block gated"])
def test_inductor_computes_the_same(name):
    torch._dynamo.reset()
    module = built(name)
    compiled = torch.compile(module, fullgraph=True)
    torch.testing.assert_close(compiled(*inputs(name)), module(*inputs(name)), atol=FLOAT32, rtol=0)
    compiled(*inputs(name)).sum().backward()
