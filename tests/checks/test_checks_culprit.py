"""When a model leaks, the finding names the module at which it comes in, and that module's own forward."""

from __future__ import annotations

import inspect

import pytest
import torch
from models_with_layers import (
    HEADS,
    WIDTH,
    Attention,
    NoPadding,
    NoTriangle,
    OneAhead,
    OverBatch,
    OverTime,
    Whole,
    model,
)
from torch import nn

import regard
from regard.checks.check import check

CAUSAL = {"causal": True}
LEAKS = {  # what is exchanged -> (path, class, its sizes, is the model causal, rule, kind)
    "an attention whose triangle begins one too late": ("layers.2.attn", OneAhead, CAUSAL, "ATT201", "causal-off-by-one"),
    "an attention without a triangle": ("layers.2.attn", NoTriangle, CAUSAL, "ATT201", "causal-missing"),
    "a norm over time in a causal model": (
        "layers.1.norm2", OverTime, {"normalized_shape": WIDTH}, "ATT201", "future-leak-nonattention",
    ),
    "an attention that drops the mask": ("layers.2.attn", NoPadding, {}, "ATT101", "mask-ignored"),
    "a norm over padding": ("layers.1.norm2", OverTime, {"normalized_shape": WIDTH}, "ATT101", "padding-leak-nonattention"),
    "a norm over padding inside a Sequential": (
        "layers.3.mlp.1", OverTime, {"normalized_shape": 2 * WIDTH}, "ATT101", "padding-leak-nonattention",
    ),
    "a norm over the batch": ("layers.3.norm1", OverBatch, {"normalized_shape": WIDTH}, "ATT301", "batch-cross-talk"),
}  # fmt: skip


def own_forward(part: type) -> str:
    """file:line of the forward that a class runs."""
    return f"{inspect.getsourcefile(part.forward)}:{inspect.getsourcelines(part.forward)[1]}"


@pytest.mark.parametrize("leak", LEAKS)
def test_the_module_that_leaks_is_named_with_the_line_of_its_forward(leak):
    path, part, sizes, rule, kind = LEAKS[leak]
    wrong = model(path, part, causal=rule == "ATT201", sizes=sizes)
    (finding,) = regard.check(wrong, select=[rule]).errors
    assert (finding.module, finding.where, finding.kind) == (path, own_forward(part), kind)
    assert finding.message.endswith(f"; it comes in at {path} ({part.__name__})")


@pytest.mark.parametrize("causal", [False, True])
def test_the_model_in_which_nothing_was_exchanged_has_no_finding(causal):
    report = regard.check(model(causal=causal))
    assert report.findings == []
    assert report.counts["passed"] > 25


def test_a_leak_in_the_models_own_forward_names_no_part():
    torch.manual_seed(0)
    (finding,) = regard.check(Whole(), select=["ATT101"]).errors
    assert finding.module is None
    assert "comes in" not in finding.message


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_part_of_torchs_own_encoder_is_found_in_both_layouts(batch_first):
    class Tokens(nn.LayerNorm):
        """The mean over the tokens is taken off."""

        def forward(self, x):
            return super().forward(x - x.mean(1 if batch_first else 0, keepdim=True))

    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    encoder.layers[1].norm1 = Tokens(WIDTH)
    found = check(encoder, select=["ATT101"]).errors
    assert [f.message.split(" (")[0].split(" changes")[0] for f in found] == [
        "content hidden by mask",
        "content hidden by src_key_padding_mask",
    ]
    assert {(f.module, f.where, f.kind) for f in found} == {
        ("layers.1.norm1", own_forward(Tokens), "padding-leak-nonattention")
    }


def test_where_torch_wrote_the_part_the_line_is_the_users_module_around_it():
    class Reads(nn.Module):
        """ids (B, T) to states; the mean of a convolution over time reaches every token."""

        def __init__(self):
            super().__init__()
            self.model, self.over_time = model(), nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 3, padding=1))

        def forward(self, ids, attention_mask=None):
            return self.over_time(self.model(ids, attention_mask).mT).mT

    (finding,) = regard.check(Reads(), select=["ATT101"]).errors
    assert finding.module == "over_time.0"
    assert finding.where == own_forward(Reads)


def test_a_layer_that_is_made_to_see_everything_is_no_leak():
    right = model("layers.2.attn", Attention, causal=True, sizes={"causal": False})
    assert regard.check(right, select=["ATT201"]).errors == []
