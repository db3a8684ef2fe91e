"""Each rule explains itself, names kinds of fault that exist, and together they leave no kind out in silence."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest

from regard.checks.rule import FAMILIES, catalog

ROOT = pathlib.Path(__file__).parents[2]
RULES = {rule.code: rule for rule in catalog()}

KINDS = """
scale-embed-dim scale-missing scale-dk-not-sqrt scale-inverted scale-twice scale-wrong-size uniform-attention mask-scaled
head-split-order head-merge-order batch-cross-talk heads-not-independent heads-collapsed spatial-layout-scramble batch-first
gqa-order gqa-repeat-axis non-contiguous softmax-axis-query softmax-axis-head softmax-axis-batch softmax-axis-singleton
double-softmax weights-transposed mask-inverted mask-added-as-01 mask-after-softmax mask-multiplied mask-query-axis
mask-ignored mask-batch-head-order mask-fill-weak softcap-after-mask mask-wrong-source mask-shifted mask-dtype
padding-leak-nonattention causal-off-by-one causal-strict causal-flipped causal-alignment causal-missing
causal-missing-in-prefill future-leak-nonattention fully-masked-nan fully-masked-nan-backward half-overflow-mask
finite-min-overflow logit-overflow linear-normaliser-zero linear-unnormalised linear-normaliser-wrong qknorm-wrong
dropout-in-eval dropout-not-applied dropout-wrong-place path-mismatch cache-stale cache-rope-offset cache-position-bias
cache-order cache-mask cache-occupancy rope-wrong-axis rope-pairing rope-precision alibi-sign alibi-slopes
relative-index-collision window-reverse shift-mask grid-partition window-off-by-one window-symmetric chunk-boundary chunk-tail
wrong-source output-unused stream-asymmetry unregistered-parameters unused-parameters gradient-cut dead-qk channel-no-squeeze
channel-branch-lost gate-unbounded spatial-gate-per-channel coordinate-swap gate-constant input-mutated
""".split()  # noqa: SIM905 - faults.md section 4, K1 to K84 (there is no K50; K61, a window in the cache, is window-off-by-one there)


@pytest.mark.parametrize("code", RULES)
def test_a_rule_says_what_it_holds_what_goes_wrong_why_it_matters_and_shows_bad_and_good_code(code):
    doc = RULES[code].doc
    first = doc.splitlines()[0]
    assert 20 < len(first) < 140
    assert first.endswith(".")
    assert doc.splitlines()[1] == ""
    for part in ("What goes wrong:", "Why it matters:", "\nBad:\n    ", "\nGood:\n    "):
        assert part in doc


@pytest.mark.parametrize("code", RULES)
def test_a_rule_names_kinds_that_exist_and_its_family_by_its_code(code):
    assert set(RULES[code].kinds) <= set(KINDS)
    assert len(set(RULES[code].kinds)) == len(RULES[code].kinds)
    assert re.fullmatch(r"ATT[1-9]\d\d", code)
    assert RULES[code].family == FAMILIES[code[3]]


def test_every_kind_of_fault_is_named_by_a_rule_or_listed_as_undecidable():
    named = {kind for rule in RULES.values() for kind in rule.kinds}
    told = set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs" / "undecidable.md").read_text(encoding="utf-8")))
    assert len(KINDS) == len(set(KINDS)) == 90
    assert not [kind for kind in KINDS if kind not in named | told]


def test_a_kind_that_only_a_declaration_decides_is_told_on_the_page_of_what_cannot_be_decided():
    told = set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs" / "undecidable.md").read_text(encoding="utf-8")))
    asked = {"scale-embed-dim", "scale-missing", "scale-dk-not-sqrt", "scale-inverted", "scale-twice", "gqa-order"}
    assert (
        asked | {"alibi-slopes", "rope-pairing", "rope-precision", "window-off-by-one", "dropout-wrong-place"} <= told
    )


def test_rule_names_and_codes_are_unique_and_each_lives_in_the_folder():
    names = [rule.name for rule in RULES.values()]
    assert len(names) == len(set(names))
    assert {pathlib.Path(rule.file).parent.name for rule in RULES.values()} == {"catalog"}


def make_rules():
    spec = importlib.util.spec_from_file_location("make_rules", ROOT / "docs" / "make_rules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_rules_is_what_the_docstrings_and_the_planted_bugs_say():
    script = make_rules()
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "python docs/make_rules.py writes it"


def test_the_page_shows_the_wrong_line_beside_the_right_one():
    script = make_rules()
    section = script.section(RULES["ATT201"])
    assert "-    return torch.ones(t, t, dtype=torch.bool).triu(2)" in section
    assert "+    return torch.ones(t, t, dtype=torch.bool).triu(1)" in section
    assert section.count("```") % 2 == 0


def test_indented_code_of_a_docstring_becomes_a_block():
    shown = make_rules().prose("Title.\n\nBad:\n    a = 1\n      b\nGood:\n    c\nReferences: X.")
    assert shown == "Title.\n\nBad:\n\n```text\na = 1\n  b\n```\n\nGood:\n\n```text\nc\n```\n\nReferences: X."
