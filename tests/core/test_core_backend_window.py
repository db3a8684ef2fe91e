"""Windows in blocks are the reference, forward and backward, and hold no T x S tensor."""

import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from test_core_attention_backends import allowed, run

import regard
from regard.core import local, local_blocks
from regard.core.backends import kernel
from regard.mask import causal, dilated, global_tokens, padding, sliding_window

pytestmark = pytest.mark.skipif(
    not kernel.KNOWN, reason="this torch has no fused CPU kernel that gives its log-sum-exp"
)


@pytest.fixture(autouse=True, scope="module")
def blocks_of_a_few_rows():
    """So that a few dozen tokens have ends, insides and several groups of blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_blocks, "LEAST", 3)
        patch.setattr(local, "GROUP", 400)
        yield


def local_mask(kind, left, right, offset, tokens):
    band = sliding_window(left, right, offset=offset)
    return {
        "window": lambda: band,
        "causal": lambda: causal(offset=offset) & sliding_window(left, offset=offset),
        "dilated": lambda: dilated(1 + left % 3, left, right, offset=offset),
        "global": lambda: band | global_tokens(tokens, offset=offset),
        "columns": lambda: band | global_tokens(tokens, queries=False),
        "causal global": lambda: (band | global_tokens(tokens, offset=offset)) & causal(offset=offset),
    }[kind]()


calls = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["window", "causal", "dilated", "global", "columns", "causal global"]),
        "T": st.integers(1, 40),
        "S": st.integers(1, 40) | st.none(),
        "left": st.integers(0, 9),
        "right": st.integers(0, 9),
        "offset": st.integers(-8, 20) | st.just(0),
        "tokens": st.lists(st.integers(0, 30), min_size=1, max_size=3),
        "heads": st.sampled_from([(1, 1), (2, 2), (4, 2), (3, 1)]),
        "widths": st.sampled_from([(4, 4), (3, 2), (2, 5)]),
        "batch": st.integers(1, 3),
        "padded": st.booleans(),
        "biased": st.sampled_from(["none", "full", "row", "sample"]),
        "dtype": st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
        "layout": st.sampled_from(["heads", "modules"]),
        "seed": st.integers(0, 1 << 30),
    }
)
USUAL = {
    "kind": "global", "T": 31, "S": None, "left": 4, "right": 3, "offset": 0, "tokens": [0, 17], "heads": (4, 2),
    "widths": (4, 4), "batch": 2, "padded": True, "biased": "none", "dtype": torch.float64, "layout": "heads", "seed": 1,
}  # fmt: skip


def made(call):
    """The tensors and arguments of a call, and what its output's gradient is."""
    generator = torch.Generator().manual_seed(call["seed"])
    B, (H, kv_heads), (D, Dv) = call["batch"], call["heads"], call["widths"]
    T, S = call["T"], call["T"] if call["S"] is None else call["S"]

    def normal(*shape):
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(call["dtype"])
        return x.transpose(1, 2).contiguous().transpose(1, 2) if call["layout"] == "modules" else x

    tensors = {"query": normal(B, H, T, D), "key": normal(B, kv_heads, S, D), "value": normal(B, kv_heads, S, Dv)}
    tensors = {name: x.requires_grad_() for name, x in tensors.items()}
    shape = {"full": (B, H, T, S), "row": (1, H, 1, S), "sample": (B, 1, T, 1)}.get(call["biased"])
    if shape is not None:
        hole = (
            float("-inf") if call["dtype"].itemsize > 2 else 0.0
        )  # the plain run of 16 bits has no rule for dead rows
        tensors["bias"] = normal(*shape).masked_fill(torch.rand(shape, generator=generator) < 0.2, hole)
    mask = local_mask(call["kind"], call["left"], call["right"], call["offset"], call["tokens"])
    if call["padded"]:
        mask = mask & padding(torch.rand(B, S, generator=generator) > 0.4)
    upstream = torch.randn((B, H, T, Dv), generator=generator, dtype=torch.float64).to(call["dtype"]).double()
    return tensors, {"mask": mask}, upstream


@settings(max_examples=400)
@given(calls)
@example(USUAL)
@example({**USUAL, "T": 1})
@example({**USUAL, "left": 9, "right": 9, "T": 4})  # a window larger than the sequence
@example({**USUAL, "T": 24, "left": 2, "right": 0, "kind": "causal", "padded": False})
def test_blocks_are_the_reference_forward_and_backward(call):
    tensors, arguments, upstream = made(call)
    truth = run(regard.reference.attention, {n: x.double() for n, x in tensors.items()}, upstream, **arguments)
    limit = allowed(truth, call["dtype"], tensors, upstream, arguments)
    refused = regard.explain_backend(**tensors, **arguments).reasons.get("window", "")
    if "no window" in refused:
        return  # the sequence is shorter than the window: no side is bounded
    ours = run(regard.attention, tensors, upstream, **arguments, backend="window")
    for name, x in ours.items():
        error = float((x - truth[name]).abs().max())
        assert error <= limit[name], f"{name}: {error:.3g} > {limit[name]:.3g}"
