"""Talking heads are the open form in float64, in any number of parts, under any mask; a part of the rows is held, never the map."""

import pytest
import torch
from memory import extra_mebibytes

from regard.core.errors import ShapeError
from regard.core.talking_heads import talking_heads, talking_weights
from regard.mask import causal, padding, sliding_window

B, H, T, S, D, DV = 2, 4, 9, 9, 4, 6
EXACT, CLOSE = 1e-10, 1e-5

MASKS = {
    "none": None,
    "causal": causal(),
    "padding": padding(lengths=torch.tensor([9, 4])),
    "a row that sees nothing": sliding_window(left=1, right=0) & padding(torch.arange(S)[None] > 3),
    "causal window and padding": causal() & sliding_window(left=3) & padding(lengths=torch.tensor([9, 5])),
}


def draw(dtype=torch.float64, kv=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = {"query": (B, H, T, D), "key": (B, kv, S, D), "value": (B, kv, S, DV), "before": (H, H), "after": (H, H)}
    return {name: torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype) for name, shape in shapes.items()}


def open_form(query, key, value, before, after, mask=None, bias=None):
    """Written out, one head at a time, with a loop over what each head takes."""
    key, value = (x.repeat_interleave(H // x.shape[1], 1) for x in (key, value))
    product = query @ key.mT * D**-0.5
    attend = torch.ones(B, H, T, S, dtype=torch.bool)
    if mask is not None:
        attend = mask.materialise(T, S, batch=B, heads=H).expand(B, H, T, S)
    weights = []
    for h in range(H):
        scores = sum(before[h, g] * product[:, g] for g in range(H))
        scores = scores if bias is None else scores + bias[:, h]
        shown = attend[:, h]
        exp = torch.where(shown, (scores - scores.amax(-1, keepdim=True)).exp(), torch.zeros(()).double())
        weights.append(exp / exp.sum(-1, keepdim=True).clamp(min=1e-300))
    mixed = [sum(after[h, g] * weights[g] for g in range(H)) for h in range(H)]
    return torch.stack([mixed[h] @ value[:, h] for h in range(H)], 1), torch.stack(mixed, 1)


@pytest.mark.parametrize("part_bytes", [1, 700, 1 << 25])
@pytest.mark.parametrize("name", MASKS)
def test_output_weights_and_gradients_are_those_of_the_open_form(name, part_bytes):
    given = {n: x.requires_grad_() for n, x in draw().items()}
    bias = torch.randn(1, H, T, S, generator=torch.Generator().manual_seed(5), dtype=torch.float64, requires_grad=True)
    expected, weights = open_form(**given, mask=MASKS[name], bias=bias)
    ours = talking_heads(**given, mask=MASKS[name], bias=bias, part_bytes=part_bytes)
    assert (ours - expected).abs().max() < EXACT
    without = {n: x for n, x in given.items() if n != "value"}
    assert (talking_weights(**without, mask=MASKS[name], bias=bias) - weights).abs().max() < EXACT
    up = torch.randn(expected.shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    inputs = [*given.values(), bias]
    for a, b in zip(torch.autograd.grad(ours, inputs, up), torch.autograd.grad(expected, inputs, up), strict=True):
        assert (a - b).abs().max() < EXACT


def test_without_mixing_it_is_attention():
    import regard

    given = draw(torch.float32)
    plain = regard.attention(given["query"], given["key"], given["value"], mask=causal())
    assert torch.allclose(talking_heads(given["query"], given["key"], given["value"], mask=causal()), plain, atol=CLOSE)
    eye = torch.eye(H)
    mixed = talking_heads(given["query"], given["key"], given["value"], before=eye, after=eye, mask=causal())
    assert torch.allclose(mixed, plain, atol=CLOSE)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_hidden_from_a_row_does_it_no_harm_and_what_is_seen_is_not_silent(bad):
    given = draw()
    expected = talking_heads(**given, mask=causal(), part_bytes=700)
    for name in ("key", "value"):
        spoiled = given | {name: given[name].clone()}
        spoiled[name][:, 1, 5] = bad
        ours = talking_heads(**spoiled, mask=causal(), part_bytes=700)
        assert torch.equal(ours[:, :, :5], expected[:, :, :5])
        assert ours[:, :, 5:].isnan().all()  # in every head, since all heads read all heads


STEP = """
import torch
from regard.core.talking_heads import talking_heads
from regard.mask import causal

torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)

def run(tokens=3072):
    q, k, v = (torch.randn(1, 8, tokens, 16, generator=g, requires_grad=True) for _ in range(3))
    mix = torch.eye(8, requires_grad=True)
    talking_heads(q, k, v, before=mix, after=mix, mask=causal(), part_bytes=4 << 20).sum().backward()

run(64)
"""


def test_a_part_of_the_rows_is_held_and_never_the_map():
    whole = 8 * 3072 * 3072 * 4 / 2**20  # MiB of one map: 288; the open form holds several
    assert extra_mebibytes(STEP) < 0.6 * whole


def test_mixings_of_another_number_of_heads_are_refused():
    given = draw() | {"after": torch.eye(3, dtype=torch.float64)}
    with pytest.raises(ShapeError, match=r"after mixes 4 heads with 4 heads and must be \(4, 4\), got \(3, 3\)"):
        talking_heads(**given)


def test_dropout_in_parts_draws_the_same_numbers_in_the_backward_pass():
    given = {n: x.requires_grad_() for n, x in draw().items()}
    torch.manual_seed(3)
    output = talking_heads(**given, mask=causal(), dropout=0.5, part_bytes=700)
    value = given["value"]
    (grad,) = torch.autograd.grad(output.sum(), [value])
    # linear in the values: the gradient times the values is the sum of the output that was drawn
    assert torch.allclose((grad * value).sum(), output.sum(), atol=EXACT)
    assert not torch.allclose(output, talking_heads(**given, mask=causal(), part_bytes=700))
