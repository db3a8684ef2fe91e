"""Documents and padded batches part by part are the reference, and are left alone where the parts are not known."""

import pytest
import torch
from grid_of_calls import make
from memory import extra_mebibytes
from test_core_attention_backends import allowed, run

import regard
from regard.core.errors import MaskError
from regard.core.mask.spans import spans_of
from regard.mask import causal, documents, from_cu_seqlens, padding, sliding_window, to_cu_seqlens

T = 24
IDS = torch.tensor([[0] * 5 + [1] * 9 + [-1] * 3 + [4] * 7, [2] * 20 + [-1] * 4, [-1] * 24])
KEEP = torch.tensor([[1] * 5 + [0] * 2 + [1] * 3 + [0] * 14, [1] * 20 + [0] * 4, [0] * 24]) > 0
MASKS = {
    "documents": documents(IDS),
    "causal documents": documents(IDS) & causal(),
    "windows in documents": sliding_window(3, 1) & documents(IDS),
    "one row of documents for all": documents(IDS[0]),
    "padding with holes": padding(KEEP),
    "causal padding": causal() & padding(KEEP),
    "lengths": padding(lengths=[5, 24, 0]),
    "nothing but padding": padding(lengths=[0, 0, 0]),
}


def made(dtype=torch.float64, heads=(4, 2), tokens=T):
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, heads[0], tokens, 4), (3, heads[1], tokens, 4), (3, heads[1], tokens, 5))
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]
    return dict(zip(("query", "key", "value"), tensors, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_parts_are_the_reference_forward_and_backward(name, biased, dtype):
    tensors, arguments = made(dtype), {"mask": MASKS[name]}
    if biased:
        tensors["bias"] = torch.randn(3, 1, T, T, generator=torch.Generator().manual_seed(2)).to(dtype)
    upstream = torch.randn(3, 4, T, 5, generator=torch.Generator().manual_seed(1)).to(dtype).double()
    truth = run(regard.reference.attention, {n: x.double() for n, x in tensors.items()}, upstream, **arguments)
    limit = allowed(truth, dtype, tensors, upstream, arguments)
    for what, x in run(regard.attention, tensors, upstream, **arguments, backend="packed").items():
        assert float((x - truth[what]).abs().max()) <= limit[what], what


def test_calls_of_the_grid_that_have_parts_are_the_reference():
    used = 0
    for number in range(20_000, 22_000):
        call = make(number)
        tensors = {name: x.detach() for name, x in call.tensors.items()}
        try:
            ours = regard.attention(**tensors, **call.arguments, backend="packed")
        except regard.core.errors.BackendError:
            continue
        used += 1
        truth = regard.reference.attention(**tensors, **call.arguments)
        error = float((ours - truth).abs().max())
        assert error <= 8 * torch.finfo(ours.dtype).eps * max(1.0, float(truth.abs().max())), call
    assert used >= 15


def test_long_batches_with_much_left_out_go_in_parts():
    lengths = torch.tensor([300, 900, 200])
    tensors = made(torch.float32, tokens=1000)
    choice = regard.explain_backend(**tensors, mask=padding(lengths=lengths))
    assert (choice.name, choice.repairs) == (
        "packed",
        ("3 parts in calls of their own, 47% of all pairs of queries and keys",),
    )
    assert (
        regard.explain_backend(**tensors, mask=padding(lengths=[900, 990, 900]))
        .reasons["packed"]
        .startswith("93% of all")
    )
    assert "too small" in regard.explain_backend(**made(), mask=MASKS["documents"]).reasons["packed"]


def test_a_tensor_that_was_written_to_or_replaced_is_not_known_any_more():
    ids = IDS.clone()
    mask = documents(ids)
    assert spans_of(ids)[0] == ((0, 5), (5, 14), (17, 24))
    assert spans_of(ids.clone()) is None
    ids[0, 0] = 7
    assert "not known" in regard.explain_backend(**made(), mask=mask).reasons["packed"]
    returning = documents(torch.tensor([0, 1, 0] * 8))
    assert "not known" in regard.explain_backend(**made(), mask=returning).reasons["packed"]


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("at", [0, 6, 20])
def test_nan_is_seen_in_its_part_and_nowhere_else(name, at):
    tensors = {n: x.detach() for n, x in made().items()}
    clean = regard.attention(**tensors, mask=MASKS[name], backend="packed")
    tensors["key"] = tensors["key"].clone()
    tensors["key"][0, 1, at] = float("nan")
    output = regard.attention(**tensors, mask=MASKS[name], backend="packed")
    sees = torch.zeros(3, 4, T, dtype=torch.bool)
    sees[0, 2:] = MASKS[name].materialise(T, T, batch=3).expand(3, 4, T, T)[0, 2:, :, at]
    assert torch.equal(output[~sees], clean[~sees])
    assert output[sees].isnan().all()


def test_cu_seqlens_go_in_and_come_out():
    mask = from_cu_seqlens(torch.tensor([0, 5, 5, 9]), length=12)
    assert mask.ids.tolist() == [[0] * 5 + [2] * 4 + [-1] * 3]
    assert to_cu_seqlens(mask).tolist() == [0, 5, 9]
    assert to_cu_seqlens(documents(IDS)).tolist() == [0, 5, 14, 21, 41]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: from_cu_seqlens([0, 5, 3]), r"from 0 and increasing, got \[0, 5, 3\]"),
        (lambda: from_cu_seqlens([0, 5], length=4), "the documents end at 5, and length is 4"),
        (lambda: to_cu_seqlens(causal()), r"only documents\(ids\) has cu_seqlens, got causal\(\)"),
        (lambda: to_cu_seqlens(documents(torch.tensor([0, 1, 0]))), "an id comes back after another"),
    ],
)
def test_what_has_no_cu_seqlens_is_refused(call, text):
    with pytest.raises(MaskError, match=text):
        call()


CALL = """
import torch, regard
from regard.mask import causal, documents
generator = torch.Generator().manual_seed(0)
query, key, value = (torch.randn(1, 2, 16384, 16, generator=generator).requires_grad_() for _ in range(3))
mask = causal() & documents(torch.arange(16384) // 1024)
assert regard.explain_backend(query, key, value, mask=mask).name == "packed"
regard.attention(*(x[:, :, :2048] for x in (query, key, value)), mask=causal()).sum().backward()
def run():
    regard.attention(query, key, value, mask=mask).sum().backward()
"""


def test_no_tensor_of_queries_by_keys_appears():
    assert extra_mebibytes(CALL) < 16384**2 / 2**20  # of one byte per pair: 256
