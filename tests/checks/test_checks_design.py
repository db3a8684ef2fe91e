"""Declarations: from Python, a mapping, a comment; what is not known is refused word by word; what is said changes levels."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from regard.checks.check import check
from regard.checks.design import Design
from regard.checks.settings import declaration
from regard.core.errors import DesignError

REFUSED = [
    ({"layout": "BDL"}, "layout 'BDL' is not known; it is one of BLD, LBD, BCHW, BHWC, BCL, BHLD, LD, BL"),
    ({"gate": "axial"}, "gate 'axial' is not known; it is channel, spatial or coordinate"),
    (
        {"mask": {"arg": "m", "polarity": "yes"}},
        "mask polarity 'yes' is not known; it is 'keep' (True = attend) or 'ignore' (True = hidden)",
    ),
    ({"heads": 8, "kv_heads": 3}, "8 heads cannot share 3 key-value heads; kv_heads must divide heads"),
]


@pytest.mark.parametrize(("said", "refusal"), REFUSED)
def test_a_declaration_that_cannot_be_is_refused(said, refusal):
    for make in (lambda: Design(**said), lambda: Design.from_mapping(said)):
        with pytest.raises(DesignError) as caught:
            make()
        assert str(caught.value) == refusal


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(DesignError) as caught:
        Design.from_mapping({"layout": "BLD", "casual": True})
    text = str(caught.value)
    assert text.startswith("'casual' is no declaration; known: attention, cache, causal, context, dropout, embed_dim, ")
    assert text.endswith(", window, zero_init")


def test_lists_of_toml_become_tuples_and_nothing_is_declared_by_default():
    design = Design.from_mapping({"grid": [4, 6], "window": [2, 2], "causal": False})
    assert (design.grid, design.window, design.causal, design.declared) == ((4, 6), (2, 2), False, True)
    assert not Design().declared


@pytest.mark.parametrize(
    ("mask", "argument", "polarity"),
    [
        ("keep", "keep", None),
        ({"arg": "pad", "polarity": "ignore"}, "pad", "drop"),
        ({"arg": "m", "polarity": "keep"}, "m", "keep"),
        (None, None, None),
    ],
)
def test_a_mask_is_declared_by_name_or_with_its_polarity(mask, argument, polarity):
    design = Design(mask=mask)
    assert (design.mask_argument, design.mask_polarity) == (argument, polarity)


def test_a_comment_in_a_class_is_read():
    source = 'class A:\n    # regard: design causal=True, window=4 layout="BLD" grid=(2, 3)\n    pass\n'
    design = Design.from_comment(source)
    assert (design.causal, design.window, design.layout, design.grid) == (True, 4, "BLD", (2, 3))
    assert Design.from_comment("class A: pass") is None


@pytest.mark.parametrize("words", ["causal=maybe", "window=4+x"])
def test_a_comment_that_holds_no_literals_is_refused_as_it_stands(words):
    with pytest.raises(DesignError) as caught:
        Design.from_comment(f"# regard: design {words}")
    assert (
        str(caught.value)
        == f"the comment '# regard: design {words}' cannot be read: write name=value pairs with Python literals"
    )


def test_a_comment_with_an_unknown_name_is_refused():
    with pytest.raises(DesignError, match="'mood' is no declaration"):
        Design.from_comment("# regard: design mood=1")


def test_a_design_file_speaks_of_a_class_by_its_name_and_of_the_others_together(tmp_path):
    file = tmp_path / "design.toml"
    file.write_text("[Narrow]\nscale = 1.0\n[design]\ncausal = true\n")
    assert declaration(file, "Narrow") == {"scale": 1.0}
    assert declaration(file, "Wide") == {"causal": True}
    file.write_text('layout = "BLD"\n')
    assert Design.from_mapping(declaration(file, "Wide")).layout == "BLD"


class Unscaled(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)


class SaysSo(Unscaled):
    # regard: design scale=1.0

    def forward(self, x):
        return super().forward(x)


def scale_of(target, **options):
    return [(f.level, f.kind) for f in regard.check(target, select=["ATT401"], **options).findings]


def test_a_scale_is_asked_about_accepted_when_declared_and_an_error_against_the_declaration():
    assert scale_of(Unscaled()) == [("question", "scale-missing")]
    assert scale_of(Unscaled(), design=Design(scale=1.0)) == []
    assert scale_of(Unscaled(), design={"scale": 1.0}) == []
    assert scale_of(Unscaled(), design=Design(head_dim=8)) == [("error", "scale-missing")]


def test_a_comment_in_the_class_declares_and_python_comes_before_it():
    assert scale_of(SaysSo()) == []
    assert scale_of(SaysSo(), design=Design(head_dim=8)) == [("error", "scale-missing")]


class BothWays(nn.Module):
    """Attention in both directions."""

    def __init__(self, dim=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT / 8**0.5).softmax(-1) @ self.v(x)


def test_a_module_that_is_declared_causal_must_be():
    said = regard.check(BothWays(), design={"causal": True}, select=["ATT201"])
    assert [(f.level, f.kind) for f in said.findings] == [("error", "causal-missing")]
    assert "it is meant to be causal (the design says causal)" in said.findings[0].message
    assert not regard.check(BothWays(), select=["ATT201"]).findings


def test_a_declared_layout_decides_what_behaviour_leaves_open():
    class SequenceFirst(nn.Module):
        """x: (batch, length, channels)."""

        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    wrong = regard.check(SequenceFirst(), design=Design(layout="BLD"), select=["ATT301"])
    assert [f.kind for f in wrong.findings] == ["batch-first"]
    assert not regard.check(SequenceFirst(), design=Design(layout="LBD"), select=["ATT301"]).findings


def test_declared_inputs_are_used_as_they_are():
    report = regard.check(BothWays(), design={"layout": "BLD", "inputs": {"x": [2, 5, 8]}}, select=["ATT301"])
    assert report.inferred["inputs"]["x"]["shape"] == [2, 5, 8]


def test_sums_of_weights_that_are_meant_are_not_asked_about():
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            return self.q(x).sigmoid() @ (self.k(x).sigmoid().mT @ self.v(x))

    assert [f.rule for f in regard.check(Sums(), select=["ATT406"]).findings] == ["ATT406"]
    assert not regard.check(Sums(), design={"row_sum": "any"}, select=["ATT406"]).findings
    with torch.random.fork_rng():
        assert regard.check(Sums(), select=["ATT406"]).findings[0].level in ("warning", "question")


class Near(nn.Module):
    """Pixels of a map see those near by: in rows and in columns, or (wrong) in rows or in columns."""

    def __init__(self, either: bool = False, reach: int = 1):
        super().__init__()
        self.either, self.reach, self.qkv, self.out = either, reach, nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        rows, columns = x.shape[-2:]
        r, c = torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)
        near_r, near_c = ((t[:, None] - t).abs() <= self.reach for t in (r, c))
        keep = near_r | near_c if self.either else near_r & near_c
        q, k, v = self.qkv(x.flatten(2).mT).chunk(3, -1)
        y = torch.nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=keep)[:, 0]
        return self.out(y).mT.unflatten(2, (rows, columns))


@pytest.mark.parametrize(("made", "found"), [(Near(), False), (Near(either=True), True), (Near(reach=2), True)])
def test_a_declared_window_of_a_map_is_measured_in_rows_and_columns(made, found):
    design = {"layout": "BCHW", "inputs": {"x": (2, 16, 6, 9)}, "window": 3}
    report = check(made, design=design, select=["ATT807"])
    assert [o.result for o in report.outcomes] == ["failed" if found else "passed"]
    if found:
        assert "the window is 3 x 3" in report.findings[0].message
