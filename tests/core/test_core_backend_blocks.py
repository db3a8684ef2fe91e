"""Rows of blocks are the reference, whatever the layout; and no T x S tensor appears."""

import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from memory import extra_mebibytes
from test_core_attention_backends import allowed, run

import regard
from regard.mask import blocks, causal, padding

calls = st.fixed_dictionaries(
    {
        "T": st.integers(1, 12),
        "S": st.integers(1, 12),
        "size": st.integers(1, 4),
        "dense": st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        "heads": st.sampled_from([(1, 1), (4, 2), (3, 1)]),
        "padded": st.booleans(),
        "biased": st.sampled_from(["none", "full", "row", "column"]),
        "dtype": st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
        "seed": st.integers(0, 1 << 30),
    }
)
USUAL = {
    "T": 11, "S": 9, "size": 4, "dense": 0.7, "heads": (4, 2), "padded": True, "biased": "full",
    "dtype": torch.float64, "seed": 0,
}  # fmt: skip


@settings(max_examples=300)
@given(calls)
@example(USUAL)
@example({**USUAL, "T": 1, "S": 1})
def test_rows_of_blocks_are_the_reference_forward_and_backward(call):
    generator = torch.Generator().manual_seed(call["seed"])
    (H, kv_heads), T, S, dtype = call["heads"], call["T"], call["S"], call["dtype"]
    layout = torch.rand(-(-T // call["size"]), -(-S // call["size"]), generator=generator) < call["dense"]
    mask = blocks(layout, size=call["size"], offset=0)
    mask = mask & padding(torch.rand(2, S, generator=generator) > 0.4) if call["padded"] else mask
    shapes = {"query": (2, H, T, 4), "key": (2, kv_heads, S, 4), "value": (2, kv_heads, S, 3)}
    tensors = {n: torch.randn(s, generator=generator).to(dtype).requires_grad_() for n, s in shapes.items()}
    wide = {"full": (2, H, T, S), "row": (1, 1, 1, S), "column": (1, H, T, 1)}.get(call["biased"])
    if wide is not None:
        tensors["bias"] = torch.randn(wide, generator=generator).to(dtype)
    upstream = torch.randn((2, H, T, 3), generator=generator).to(dtype).double()
    truth = run(regard.reference.attention, {n: x.double() for n, x in tensors.items()}, upstream, mask=mask)
    limit = allowed(truth, dtype, tensors, upstream, {"mask": mask})
    for name, x in run(regard.attention, tensors, upstream, mask=mask, backend="blocks").items():
        assert float((x - truth[name]).abs().max()) <= limit[name], name


def made(tokens):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 2, tokens, 8, generator=generator) for _ in range(3)]


def test_few_large_blocks_are_chosen_and_a_layout_written_to_is_not_known_any_more():
    layout = torch.eye(4) > 0
    layout[:, 0] = True
    tensors = made(1024)
    choice = regard.explain_backend(*tensors, mask=blocks(layout))
    assert (choice.name, choice.repairs) == ("blocks", ("4 rows of blocks in calls of their own, 44% of all pairs",))
    assert "75% of all pairs" in regard.explain_backend(*tensors, mask=blocks(~torch.eye(4).bool())).reasons["blocks"]
    assert "too small" in regard.explain_backend(*made(16), mask=blocks(torch.eye(4) > 0)).reasons["blocks"]
    assert "no blocks(layout)" in regard.explain_backend(*tensors, mask=causal()).reasons["blocks"]
    mask = blocks(layout)
    layout[0, 1] = True
    assert "not written to since" in regard.explain_backend(*tensors, mask=mask).reasons["blocks"]


@pytest.mark.parametrize("at", [0, 5, 11])
def test_nan_is_seen_by_the_blocks_that_see_its_key(at):
    mask = blocks(torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0]]) > 0) & padding(torch.arange(12)[None] != 5)
    query, key, value = made(12)
    clean = regard.attention(query, key, value, mask=mask, backend="blocks")
    value[0, 1, at] = float("inf")
    output = regard.attention(query, key, value, mask=mask, backend="blocks")
    sees = torch.zeros(1, 2, 12, dtype=torch.bool)
    sees[0, 1] = mask.materialise(12, 12)[0, 0, :, at]
    assert torch.equal(output[~sees], clean[~sees])
    assert output[sees].isnan().all()


CALL = """
import torch, regard
from regard.mask import blocks, causal
generator = torch.Generator().manual_seed(0)
query, key, value = (torch.randn(1, 2, 16384, 16, generator=generator).requires_grad_() for _ in range(3))
layout = torch.eye(64) > 0
layout[:, 0] = True
mask = blocks(layout)
assert regard.explain_backend(query, key, value, mask=mask).name == "blocks"
regard.attention(*(x[:, :, :2048] for x in (query, key, value)), mask=causal()).sum().backward()
def run():
    regard.attention(query, key, value, mask=mask).sum().backward()
"""


def test_no_tensor_of_queries_by_keys_appears():
    assert extra_mebibytes(CALL) < 16384**2 / 2**20  # of one byte per pair: 256
