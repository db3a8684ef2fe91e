"""attention() against an oracle that nobody here wrote: the reference evaluator of the ONNX Attention operator."""

import itertools

import pytest
import torch

import regard
from regard.mask import causal, dense, padding, sliding_window

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

OPSET = 25
CLOSE = 1e-6  # float32, sums of at most 9 terms of unit size


def oracle(query, key, value, *, attend=None, past=None, lengths=None, **attributes):
    """The operator's first output, for tensors; `past` is a pair (key, value), `lengths` the real keys per sample."""
    given = {"Q": query, "K": key, "V": value}
    names = ["Q", "K", "V", "", "", "", ""]
    extra = {"attn_mask": (3, attend), "past_key": (4, past and past[0]), "past_value": (5, past and past[1])}
    extra["nonpad_kv_seqlen"] = (6, lengths)
    for name, (place, tensor) in extra.items():
        if tensor is not None:
            given[name], names[place] = tensor, name
    while names[-1] == "":
        names.pop()
    outputs = ["Y"] if past is None else ["Y", "present_key", "present_value"]
    node = helper.make_node("Attention", names, outputs, **attributes)
    kinds = {torch.float32: TensorProto.FLOAT, torch.bool: TensorProto.BOOL, torch.int64: TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(n, kinds[t.dtype], list(t.shape)) for n, t in given.items()]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph([node], "attention", inputs, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    return torch.from_numpy(ReferenceEvaluator(model).run(None, {n: t.numpy() for n, t in given.items()})[0])


HEADS = ((2, 2), (4, 2), (3, 1))
PLAIN = list(itertools.product(HEADS, (None, 2.0), (None, 0.3), ("none", "bool2", "bool4", "causal", "window")))
CACHED = list(itertools.product(HEADS, (0, 3), (None, 1.5), ("causal", "window", "free")))
LENGTHS = list(itertools.product(HEADS, (None, 1.5), ("causal", "window", "free")))


def made(seed, B, H, kv_heads, T, S, D=5, Dv=4):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((B, H, T, D), (B, kv_heads, S, D), (B, kv_heads, S, Dv))
    return generator, *(torch.randn(shape, generator=generator) for shape in shapes)


def test_there_are_at_least_sixty_configurations():
    assert len(PLAIN) + len(CACHED) + len(LENGTHS) >= 60


@pytest.mark.parametrize("backend", [None, "open"])
@pytest.mark.parametrize(("heads", "softcap", "scale", "kind"), PLAIN)
def test_masks_groups_softcap_and_scale_agree_with_the_operator(heads, softcap, scale, kind, backend):
    generator, query, key, value = made(len(kind) + heads[0], 2, *heads, 4, 6)
    attributes = {name: x for name, x in (("softcap", softcap), ("scale", scale)) if x is not None}
    attend = mask = None
    if kind == "bool2":
        attend = torch.rand(4, 6, generator=generator) > 0.5
        attend[1] = False  # a row that sees nothing
        mask = dense(attend)
    elif kind == "bool4":
        attend = torch.rand(2, heads[0], 4, 6, generator=generator) > 0.5
        attend[0, 0, 2] = False
        mask = attend
    elif kind == "causal":
        attributes["is_causal"], mask = 1, causal(offset=0)
    elif kind == "window":
        attributes |= {"left_window_size": 1, "right_window_size": 2}
        mask = sliding_window(1, 2, offset=0)
    theirs = oracle(query, key, value, attend=attend, **attributes)
    ours = regard.attention(query, key, value, mask=mask, softcap=softcap, scale=scale, backend=backend)
    torch.testing.assert_close(ours, theirs, atol=CLOSE, rtol=0)


@pytest.mark.parametrize(("heads", "past", "softcap", "kind"), CACHED)
def test_queries_after_a_past_agree_with_the_operator(heads, past, softcap, kind):
    T = 3
    _, query, key, value = made(past, 2, *heads, T, past + T)
    attributes = {} if softcap is None else {"softcap": softcap}
    mask = {"causal": causal(offset=past), "window": sliding_window(1, 0, offset=past), "free": None}[kind]
    if kind == "causal":
        attributes["is_causal"] = 1
    elif kind == "window":
        attributes |= {"left_window_size": 1, "right_window_size": 0}
    before = (key[:, :, :past].contiguous(), value[:, :, :past].contiguous())
    theirs = oracle(query, key[:, :, past:].contiguous(), value[:, :, past:].contiguous(), past=before, **attributes)
    torch.testing.assert_close(
        regard.attention(query, key, value, mask=mask, softcap=softcap), theirs, atol=CLOSE, rtol=0
    )


@pytest.mark.parametrize(("heads", "softcap", "kind"), LENGTHS)
def test_lengths_per_sample_agree_with_the_operator(heads, softcap, kind):
    T, lengths = 3, torch.tensor([6, 2])  # the second sample has fewer keys than queries: its first row sees nothing
    _, query, key, value = made(7, 2, *heads, T, 6)
    attributes = {} if softcap is None else {"softcap": softcap}
    mask = padding(lengths=lengths)
    if kind == "causal":
        attributes["is_causal"] = 1
        mask = mask & causal(offset=lengths - T)
    elif kind == "window":
        attributes |= {"left_window_size": 2, "right_window_size": 0}
        mask = mask & sliding_window(2, 0, offset=lengths - T)
    theirs = oracle(query, key, value, lengths=lengths, **attributes)
    torch.testing.assert_close(
        regard.attention(query, key, value, mask=mask, softcap=softcap), theirs, atol=CLOSE, rtol=0
    )


def test_a_bias_agrees_with_the_operators_additive_mask():
    generator, query, key, value = made(3, 2, 4, 2, 4, 6)
    bias = torch.randn(2, 1, 4, 6, generator=generator)
    bias[0, :, :, 3] = float("-inf")
    torch.testing.assert_close(
        regard.attention(query, key, value, bias=bias), oracle(query, key, value, attend=bias), atol=CLOSE, rtol=0
    )
