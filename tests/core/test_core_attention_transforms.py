"""attention() under autograd, compile, export and vmap; the same numbers in every way of running it."""

import io

import pytest
import torch
from torch.utils import _pytree as pytree

import regard
from regard.mask import blocks, causal, dense, documents, global_tokens, padding, sliding_window

T = 6
keep = torch.tensor([[True, True, True, False, True, False], [True, False, True, True, False, False]])
MASKS = {
    "none": None,
    "causal": causal(),
    "causal and lengths": causal() & padding(lengths=torch.tensor([3, 5])),
    "longformer": (sliding_window(1, 1) | global_tokens([0])) & padding(keep),
    "documents": documents(torch.tensor([0, 0, 1, 1, -1, -1])),
    "blocks": blocks(torch.eye(3) > 0),
    "dense": dense(torch.rand(T, T, generator=torch.Generator().manual_seed(0)) > 0.5),
    "samples apart": causal(offset=torch.tensor([1, -2])),
    "bound": causal().at(torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([[3, 1, -1, 2, 9, 0]])),
}


def made(batch=2, tokens=T, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, 4, tokens, 4), (batch, 2, tokens, 4), (batch, 2, tokens, 3))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.mark.parametrize("backend", ["sdpa", "open"])
@pytest.mark.parametrize("name", MASKS)
def test_gradients_are_those_of_finite_differences(name, backend):
    tensors = [x.requires_grad_() for x in made(dtype=torch.float64)]
    assert torch.autograd.gradcheck(
        lambda q, k, v: regard.attention(q, k, v, mask=MASKS[name], backend=backend), tensors
    )


def test_bias_sink_and_softcap_have_gradients():
    generator = torch.Generator().manual_seed(5)
    bias = torch.randn(1, 4, T, T, generator=generator, dtype=torch.float64).requires_grad_()
    sink = torch.randn(4, generator=generator, dtype=torch.float64).requires_grad_()
    tensors = [x.requires_grad_() for x in made(dtype=torch.float64)]
    assert torch.autograd.gradcheck(
        lambda q, k, v, b, s: regard.attention(q, k, v, bias=b, sink=s, softcap=1.5, mask=MASKS["dense"]),
        (*tensors, bias, sink),
    )


@pytest.mark.parametrize("name", MASKS)
def test_a_compiled_graph_is_whole_and_gives_the_same(name):
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v, m: regard.attention(q, k, v, mask=m), fullgraph=True, backend="aot_eager")
    tensors, again = ([x.requires_grad_() for x in made()] for _ in range(2))
    ours, eager = compiled(*tensors, MASKS[name]), regard.attention(*again, mask=MASKS[name])
    torch.testing.assert_close(ours, eager)
    for one, other in zip(
        torch.autograd.grad(ours.sum(), tensors), torch.autograd.grad(eager.sum(), again), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_the_other_arguments_compile_too():
    torch._dynamo.reset()

    def call(q, k, v, bias, sink):
        mask = causal() & sliding_window(left=2)
        output = regard.attention(q, k, v, mask=mask, bias=bias, sink=sink, softcap=2.0, scale=0.3)
        return output, regard.attention_weights(q, k, mask=mask, queries=[1, 4], heads=[0, 3])

    bias, sink = torch.zeros(T, T, requires_grad=True), torch.zeros(4)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for one, other in zip(compiled(*made(), bias, sink), call(*made(), bias, sink), strict=True):
        torch.testing.assert_close(one, other)


class Layer(torch.nn.Module):
    def __init__(self, mask=None):
        super().__init__()
        self.mask = mask

    def forward(self, query, key, value, mask=None):
        return regard.attention(query, key, value, mask=self.mask if mask is None else mask)


BATCH, TOKENS = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("tokens", min=2, max=512)
DYNAMIC = {name: {0: BATCH, 2: TOKENS} for name in ("query", "key", "value")}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "mask", [None, causal(), causal() & sliding_window(left=2), sliding_window(1, 1) | global_tokens(0)]
)
def test_an_exported_program_takes_any_batch_and_length(mask, strict):
    program = torch.export.export(Layer(mask), tuple(made()), dynamic_shapes=DYNAMIC, strict=strict)
    for batch, tokens in ((2, 6), (3, 9), (5, 2)):
        tensors = made(batch, tokens)
        torch.testing.assert_close(program.module()(*tensors), Layer(mask)(*tensors))


@pytest.mark.parametrize("strict", [False, True])
def test_a_mask_is_an_input_of_an_exported_program_that_can_be_saved(strict):
    shapes = {**DYNAMIC, "mask": [([], [{0: BATCH, 1: TOKENS}])]}
    mask = causal() & padding(keep)
    program = torch.export.export(Layer(), (*made(), mask), dynamic_shapes=shapes, strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    tensors, other = made(3, 9), causal() & padding(torch.arange(27).reshape(3, 9) % 4 > 0)
    torch.testing.assert_close(loaded.module()(*tensors, other), Layer()(*tensors, other))


@pytest.mark.parametrize("name", MASKS)
def test_vmap_is_a_loop(name):
    many = [torch.stack([x, x + 1, -x]) for x in made()]
    mapped = torch.vmap(lambda q, k, v: regard.attention(q, k, v, mask=MASKS[name]))(*many)
    looped = [regard.attention(*(x[i] for x in many), mask=MASKS[name]) for i in range(3)]
    torch.testing.assert_close(mapped, torch.stack(looped))


def test_vmap_goes_over_masks_and_gradients():
    many = [torch.stack([x, x + 1, -x]) for x in made()]
    keeps = torch.rand(3, 2, T, generator=torch.Generator().manual_seed(0)) > 0.5
    masks = pytree.tree_map(lambda _: keeps, padding(keep))

    def loss(q, k, v, m):
        return regard.attention(q, k, v, mask=m).square().sum()

    mapped = torch.vmap(torch.func.grad(loss))(*many, masks)
    looped = [torch.func.grad(loss)(*(x[i] for x in many), padding(keeps[i])) for i in range(3)]
    torch.testing.assert_close(mapped, torch.stack(looped))


def test_masks_are_made_inside_a_compiled_function():
    torch._dynamo.reset()

    def call(q, k, v, lengths):
        return regard.attention(q, k, v, mask=causal() & padding(lengths=lengths))

    lengths = torch.tensor([2, 6])
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*made(), lengths), call(*made(), lengths))


@pytest.mark.parametrize("layout", ["modules", "strided", "expanded"])
def test_the_memory_layout_does_not_matter(layout):
    q, k, v = made()
    change = {
        "modules": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        "strided": lambda x: torch.stack([x, -x], dim=-1)[..., 0],
        "expanded": lambda x: x[:1].expand(2, -1, -1, -1),
    }[layout]
    q, k, v = (x[:1].expand(2, -1, -1, -1).contiguous() for x in (q, k, v)) if layout == "expanded" else (q, k, v)
    torch.testing.assert_close(
        regard.attention(change(q), change(k), change(v), mask=causal()), regard.attention(q, k, v, mask=causal())
    )


def test_inputs_are_left_as_they_were():
    q, k, v = made()
    k[0, 0, 3] = float("nan")
    before = [x.clone() for x in (q, k, v)]
    regard.attention(q, k, v, mask=causal())
    assert all(torch.equal(a, b) or (a.isnan() == b.isnan()).all() for a, b in zip((q, k, v), before, strict=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own imports
def test_inductor_keeps_hidden_nan_harmless_and_seen_nan_visible():
    torch._dynamo.reset()
    q, k, v = made()
    k[0, 0, 3] = float("nan")
    v[0, 1, 3] = float("inf")
    compiled = torch.compile(lambda q, k, v: regard.attention(q, k, v, mask=causal()), fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), regard.attention(q, k, v, mask=causal()), equal_nan=True)
