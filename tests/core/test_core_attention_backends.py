"""Every backend, forward and backward, is the reference: on 5,040 calls drawn from a grid of features (2,400 without --slow)."""

import pytest
import torch
from grid_of_calls import Coverage, choose, make

import regard
from regard.core.backends.registry import BACKENDS

COUNT, DEFAULT = 5040, 2400
CHUNK = 120
EXACT = {torch.float64: 1e-12, torch.float32: 2e-5}  # gradients of a softcap of 0.5 reach 20 and sum up to 21 terms
NOISE = 4.0  # in units of eps: a plain run of a few numbers can be right by luck


def plain(query, key, value, mask=None, bias=None, scale=None, softcap=None, sink=None):
    """Attention as one writes it in a low precision; only its error is used."""
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * (scores / softcap).tanh()
    scores = scores if bias is None else scores + bias
    attend = torch.ones(scores.shape[-2:], dtype=torch.bool)[None, None]
    if mask is not None:
        attend = mask.materialise(query.shape[2], key.shape[2], batch=query.shape[0], heads=query.shape[1])
    dead = ~attend.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~attend & ~dead, float("-inf"))
    if sink is not None:
        scores = torch.cat([scores, sink[None, :, None, None].expand(*scores.shape[:3], 1)], dim=-1)
    weights = scores.softmax(dim=-1)[..., : key.shape[2]].masked_fill(dead, 0.0)
    return weights @ value


def run(function, tensors, upstream, **arguments):
    """The output and the gradient of every tensor that has one, in float64."""
    fresh = {name: x.detach().clone().requires_grad_(x.requires_grad) for name, x in tensors.items()}
    output = function(**fresh, **arguments)
    wanted = {name: x for name, x in fresh.items() if x.requires_grad}
    gradients = torch.autograd.grad(output, list(wanted.values()), upstream.to(output.dtype))
    return {"output": output.detach().double(), **{n: g.double() for n, g in zip(wanted, gradients, strict=True)}}


def allowed(truth, dtype, tensors, upstream, arguments):
    """The tolerance of each result: a constant, or for 16 bits twice the error of a plain run and rounding noise."""
    if dtype in EXACT:
        return {name: EXACT[dtype] * max(1.0, float(x.abs().max())) for name, x in truth.items()}
    rough = run(plain, tensors, upstream, **arguments)
    eps = torch.finfo(dtype).eps
    return {
        name: 2 * float((rough[name] - x).abs().max()) + NOISE * eps * max(1.0, float(x.abs().max()))
        for name, x in truth.items()
    }


def compare(number: int) -> list[str]:
    """The backends that computed call `number`; fails on the first that differs from the reference."""
    example = make(number)
    tensors, arguments = example.tensors, example.arguments
    dtype = tensors["query"].dtype
    with torch.no_grad():
        shape = regard.reference.attention(**tensors, **arguments).shape
    upstream = torch.randn(shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64).to(dtype)
    upstream = upstream.double()
    truth = run(regard.reference.attention, {n: x.double() for n, x in tensors.items()}, upstream, **arguments)
    limit = allowed(truth, dtype, tensors, upstream, arguments)
    used = []
    for backend in BACKENDS:
        try:
            ours = run(regard.attention, tensors, upstream, **arguments, backend=backend.name)
        except regard.core.errors.BackendError:
            continue
        used.append(backend.name)
        for name, x in ours.items():
            error = float((x - truth[name]).abs().max())
            assert error <= limit[name], (
                f"call {number}, {backend.name}, {name}: {error:.3g} > {limit[name]:.3g}: {example}"
            )
    return used


@pytest.mark.parametrize(
    "chunk", [pytest.param(c, marks=[pytest.mark.slow] * (c >= DEFAULT // CHUNK)) for c in range(COUNT // CHUNK)]
)
def test_every_backend_is_the_reference_forward_and_backward(chunk):
    used = [name for number in range(chunk * CHUNK, (chunk + 1) * CHUNK) for name in compare(number)]
    assert used.count("open") == CHUNK
    assert used.count("sdpa") >= CHUNK // 12  # no softcap, no sink, no learned bias: one in six


def test_every_feature_and_every_pair_of_features_is_among_the_calls(capsys):
    import random

    coverage = Coverage()
    for number in range(COUNT):
        coverage.add(choose(random.Random(number)))
    smallest = min(count for cell, count in coverage.pairs.items())
    with capsys.disabled():
        print(f"\n{COUNT} calls; the diagonal counts a feature, the rest pairs; the smallest cell has {smallest}")
        print(coverage.table())
    assert coverage.empty() == []


def test_a_missing_pair_of_features_is_noticed():
    coverage = Coverage()
    coverage.add(dict.fromkeys(("softcap", "sink", "dead"), "no"))
    assert frozenset({("softcap", "yes"), ("sink", "no")}) in coverage.empty()
