"""What attention() refuses, word for word, and what explain_backend() says."""

import re

import pytest
import torch

import regard
from regard.core.errors import BackendError, DtypeError, MaskError, ShapeError
from regard.mask import causal, padding, sliding_window

query, key, value = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8), torch.zeros(2, 2, 5, 6)


def refused(kind, text):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


SHAPES = "query (2, 4, 3, 8), key {}, value {}"
CASES = [
    ({"query": [1.0]}, DtypeError, "query must be a tensor, got list"),
    (
        {"query": query[0]},
        ShapeError,
        "query must be (B, H, T, D), got (4, 3, 8); query[None] if it is (H, T, D), query[:, None] if it is (B, T, D)",
    ),
    ({"key": key[0, 0]}, ShapeError, "key must be (B, H, T, D), got (5, 8)"),
    ({"query": query.long()}, DtypeError, "query must be float32, float64, bfloat16 or float16, got torch.int64"),
    (
        {"key": key.double()},
        DtypeError,
        "query, key and value must have one dtype, got torch.float32, torch.float64, torch.float32",
    ),
    (
        {"value": value.to("meta")},
        DtypeError,
        "query, key and value must be on one device, got cpu, cpu, meta",
    ),
    (
        {"key": key[:1], "value": value[:1]},
        ShapeError,
        "query, key and value must have one batch size: " + SHAPES.format("(1, 2, 5, 8)", "(1, 2, 5, 6)"),
    ),
    (
        {"key": key[..., :7]},
        ShapeError,
        "query has 8 channels per head and key has 7: " + SHAPES.format("(2, 2, 5, 7)", "(2, 2, 5, 6)"),
    ),
    (
        {"value": value[:, :1]},
        ShapeError,
        "key has 2 heads and value has 1: " + SHAPES.format("(2, 2, 5, 8)", "(2, 1, 5, 6)"),
    ),
    (
        {"value": value[:, :, :4]},
        ShapeError,
        "key has 5 positions and value has 4: " + SHAPES.format("(2, 2, 5, 8)", "(2, 2, 4, 6)"),
    ),
    (
        {"key": torch.zeros(2, 3, 5, 8), "value": torch.zeros(2, 3, 5, 6)},
        ShapeError,
        "4 query heads cannot share 3 key heads; num_kv_heads must divide num_heads",
    ),
    ({"softcap": 0.0}, ShapeError, "softcap must be None or > 0, got 0.0"),
    ({"dropout": 1.5}, ShapeError, "dropout is a probability between 0 and 1, got 1.5"),
    ({"dropout": float("nan")}, ShapeError, "dropout is a probability between 0 and 1, got nan"),
    ({"sink": torch.zeros(2)}, ShapeError, "sink is one logit per query head, (4,), got (2,)"),
    (
        {"bias": torch.zeros(3, 5) > 0},
        DtypeError,
        "bias is a float tensor that is added to the scores, got torch.bool; a mask goes in as mask=",
    ),
    (
        {"bias": torch.zeros(4, 3, 5)},
        ShapeError,
        "bias is (T, S) or 4-D, broadcastable to (B, H, T, S), got (4, 3, 5); bias[None] if it is (H, T, S), "
        "bias[:, None] if it is (B, T, S)",
    ),
    (
        {"bias": torch.zeros(2, 2, 3, 5)},
        ShapeError,
        "bias (2, 2, 3, 5) does not broadcast to (B, H, T, S) = (2, 4, 3, 5)",
    ),
    (
        {"mask": torch.zeros(3, 5)},
        MaskError,
        "a mask is bool (True = attend), got torch.float32: scores to add go in as bias=; a mask of 0 and -inf "
        "(or <= -80) goes in as regard.mask.dense(mask)",
    ),
    (
        {"mask": torch.ones(3, 5, dtype=torch.int64)},
        MaskError,
        "a mask is bool (True = attend), got torch.int64: say which value attends, mask == 1 or mask == 0; a Hugging "
        "Face mask goes in as regard.mask.from_hf(mask)",
    ),
    (
        {"mask": torch.ones(2, 3, 5) > 0},
        MaskError,
        "a bool mask is (T, S) or 4-D, broadcastable to (B, H, T, S), got (2, 3, 5); mask[None] if it is (H, T, S), "
        "mask[:, None] if it is (B, T, S)",
    ),
    (
        {"mask": torch.ones(2, 5) > 0},
        ShapeError,
        "the mask is (2, 5), but the call has 3 queries and 5 keys; a key mask (B, S) goes in as "
        "regard.mask.padding(mask)",
    ),
    ({"mask": torch.ones(5, 3) > 0}, ShapeError, "the mask is (5, 3), but the call has 3 queries and 5 keys"),
    ({"mask": torch.ones(3, 1, 3, 5) > 0}, ShapeError, "the mask is for 3 samples, but the call has 2"),
    ({"mask": torch.ones(1, 2, 3, 5) > 0}, ShapeError, "the mask is for 2 heads, but the call has 4"),
    ({"mask": [True]}, MaskError, "a mask is a regard.mask.Mask or a bool tensor, got list"),
    (
        {"mask": causal()},
        MaskError,
        "causal() with 3 queries and 5 keys: say where query 0 stands, causal(..., offset=2) for the last 3 "
        "(bottom-right) or offset=0 for the first (top-left)",
    ),
    (
        {"mask": padding(torch.ones(3, 5) > 0)},
        ShapeError,
        "keep of padding() is for 3 samples, but the call has 2",
    ),
    (
        {"backend": "flash"},
        BackendError,
        "there is no backend 'flash'; there are packed, blocks, window, sdpa, tiled, open",
    ),
    (
        {"backend": "sdpa", "softcap": 2.0},
        BackendError,
        "backend 'sdpa' cannot compute this call: softcap is not in torch's fused kernel; backend=None takes 'open'",
    ),
]


@pytest.mark.parametrize(("changed", "kind", "text"), CASES, ids=[text[:60] for _, _, text in CASES])
def test_a_call_that_does_not_fit_is_refused_with_the_numbers_and_the_way_out(changed, kind, text):
    arguments = {"query": query, "key": key, "value": value, **changed}
    with refused(kind, text):
        regard.attention(**arguments)


def test_rows_and_heads_that_are_not_there_are_refused():
    with refused(ShapeError, "queries has 3, but there are 3; give indices from 0 to 2"):
        regard.attention_weights(query, key, queries=[3])
    with refused(ShapeError, "heads has -1, but there are 4; give indices from 0 to 3"):
        regard.attention_weights(query, key, heads=[-1])
    with refused(ShapeError, "heads must be integers (n,), got torch.bool of shape (4,)"):
        regard.attention_weights(query, key, heads=torch.ones(4) > 0)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"softcap": 1.0}, "softcap is not in torch's fused kernel"),
        ({"sink": torch.zeros(4)}, "a sink is not in torch's fused kernel"),
        (
            {"dropout": 0.1},
            "dropout=0.1 makes torch's CPU kernel fall back to a slower open form; dropout=0 is fused",
        ),
        (
            {"bias": torch.zeros(3, 5, requires_grad=True)},
            "bias needs a gradient, which torch's fused kernel does not return; bias.detach() is fused",
        ),
        ({"key": key[:, :, :0], "value": value[:, :, :0]}, "there are no keys; the open form gives 0"),
    ],
)
def test_what_the_fused_kernel_cannot_do_is_said_and_the_open_form_taken(changed, reason):
    arguments = {"query": query, "key": key, "value": value, **changed}
    choice = regard.explain_backend(**arguments)
    assert (choice.name, choice.reasons["sdpa"]) == ("open", reason)
    assert set(choice.reasons) == {"packed", "blocks", "window", "sdpa", "tiled"}
    assert str(choice).startswith("backend: open\n  not packed: ")
    assert f"\n  not sdpa: {reason}\n" in str(choice)


def test_a_bias_that_needs_no_gradient_now_is_fused():
    bias = torch.zeros(3, 5, requires_grad=True)
    with torch.no_grad():
        assert regard.explain_backend(query, key, value, bias=bias).name == "sdpa"


def test_the_repairs_are_named():
    strided = torch.zeros(2, 2, 5, 16)[..., ::2]
    choice = regard.explain_backend(query, strided, value, mask=sliding_window(1, 1, offset=0))
    assert choice.name == "sdpa"
    assert choice.repairs == (
        "value padded with zeros from 6 to 8 channels",
        "key copied: the channels were not next to each other in memory",
        "sliding_window(left=1, right=1, offset=0) written out as T x S booleans: the kernel knows only causal() from "
        "position 0, alone",
    )
    wide = torch.zeros(2, 2, 5, 12)
    assert regard.explain_backend(query, key, wide).repairs == (
        "query and key padded with zeros from 8 to 12 channels",
    )
    assert regard.explain_backend(query, key, key, mask=causal(offset=0)).repairs == ()
    assert regard.explain_backend(query, key, key, mask=~causal(offset=0)).repairs == (
        "~causal(offset=0) written out as T x S booleans: the kernel knows no other form of it",
    )


def test_the_fused_kernel_is_really_reached_after_the_repairs():
    """The private chooser says 1 (flash) for what we hand over, and 0 (math) for what we were given."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 6, d, generator=generator) for d in (8, 8, 4))
    seen = []
    real = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, **kwargs):
        args = args[:4]
        seen.append(torch._fused_sdp_choice(*args, 0.0, kwargs["is_causal"]))
        return real(*args, 0.0, **kwargs)

    from regard.core.backends import fused

    fused.F.scaled_dot_product_attention, restore = spy, real
    try:
        for mask in (None, causal(), padding(torch.ones(1, 6) > 0), torch.ones(1, 1, 6, 6) > 0):
            regard.attention(q, k, v, mask=mask)
            regard.attention(q.mT.contiguous().mT, k, v, mask=mask, bias=torch.zeros(6, 6))
    finally:
        fused.F.scaled_dot_product_attention = restore
    assert len(seen) == 8
    assert set(seen) == {1}
    assert torch._fused_sdp_choice(q, k, v) == 0
