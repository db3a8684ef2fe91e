"""Whole models of other authors: no error, no warning, only known questions, and the relations that matter are exercised.

pytest tests/checks/test_checks_whole_models.py --slow -s prints the table.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from whole_models import MODELS, made

import regard
from regard.checks.report import Report

FAST = ("Llama, grouped heads", "nn.TransformerEncoder")  # the others take 3 to 40 seconds each
ASKED = {  # model -> rule -> why it is asked
    "Bert": {"ATT701": "the pooler does not feed the states, which are the main output"},
    "ViT": {"ATT701": "the pooler does not feed the states, which are the main output"},
    "MiniLM, real weights": {"ATT701": "the pooler does not feed the states, which are the main output"},
    "T5": {"ATT401": "no scale: T5 folds it into the initialisation"},
    "Gemma-2, capped scores": {
        "ATT601": "its softmax computes in float32, where the minimum of float64 that hides keys is minus infinity: NaN in float64 only"
    },
    "nn.TransformerEncoder": {
        "ATT601": "torch's layer gives NaN, or 0, where padding hides every key: its paths differ"
    },
    "nn.Transformer": {"ATT601": "the decoder's own attention gives NaN where its padding hides every key"},
    "nn.Transformer, sequence first": {
        "ATT601": "the decoder's own attention gives NaN where its padding hides every key"
    },
}
PADDING = ("ATT101", "ATT102", "ATT103", "ATT104", "ATT105", "ATT601", "ATT602")
ANY = ("ATT301", "ATT501", "ATT503", "ATT504", "ATT509", "ATT603", "ATT605", "ATT701", "ATT702", "ATT703", "ATT704")
CACHE = ("ATT203", "ATT204", "ATT205")
EXERCISED = {  # what must have been looked at, and have passed or been asked
    "Bert": (*ANY, *PADDING, "ATT109", "ATT307", "ATT401", "ATT505", "ATT508"),
    "GPT-2": (*ANY, *PADDING, *CACHE, "ATT109", "ATT201", "ATT206", "ATT307", "ATT401", "ATT505", "ATT508"),
    "Llama, grouped heads": (*ANY, *PADDING, *CACHE, "ATT109", "ATT201", "ATT206", "ATT309", "ATT505", "ATT508", "ATT801"),
    "Mistral, window of 4": (*ANY, *PADDING, *CACHE, "ATT109", "ATT201", "ATT206", "ATT309", "ATT505", "ATT508"),
    "Gemma-2, capped scores": (*ANY, *PADDING, *CACHE, "ATT109", "ATT201", "ATT206", "ATT401", "ATT505"),
    "T5": (*ANY, *PADDING, *CACHE, "ATT109", "ATT306", "ATT401", "ATT505", "ATT508"),
    "ViT": (*ANY, "ATT101", "ATT103", "ATT104", "ATT105", "ATT307", "ATT401", "ATT508"),
    "Swin": (*ANY, "ATT307", "ATT401", "ATT505", "ATT508", "ATT805"),
    "nn.TransformerEncoder": (*ANY, *PADDING, "ATT109", "ATT307", "ATT401", "ATT502"),
    "nn.TransformerEncoder, sequence first": (*ANY, *PADDING, "ATT109", "ATT307", "ATT401", "ATT502"),
    "nn.Transformer": (*ANY, *PADDING, "ATT109", "ATT306", "ATT401"),
    "nn.Transformer, sequence first": (*ANY, *PADDING, "ATT109", "ATT306", "ATT401"),
    "MiniLM, real weights": (*ANY, *PADDING, "ATT109", "ATT401", "ATT505", "ATT508"),
}  # fmt: skip
seen: dict[str, Report] = {}

every = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in MODELS]
)


def report_of(name: str) -> Report:
    if name not in seen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the libraries warn of while they are built
            seen[name] = regard.check(made(name))
    return seen[name]


@pytest.fixture(scope="module", autouse=True)
def table():
    """The table of what ran, after the last test."""
    yield
    print(f"\n{'model':40}{'checks':>8}{'passed':>8}{'questions':>11}{'not exercised':>15}{'errors':>8}")
    for name, report in seen.items():
        c = report.counts
        errors = len(report.errors)
        print(f"{name:40}{c['checks']:8}{c['passed']:8}{c['questions']:11}{c['not_exercised']:15}{errors:8}")


@every
def test_a_right_model_has_no_error_no_warning_and_only_known_questions(name):
    report = report_of(name)
    assert report.status == "checked", report.reason
    assert [f"{f.rule}: {f.message}" for f in report.findings if f.level != "question"] == []
    assert {f.rule for f in report.findings} <= set(ASKED.get(name, {}))


@every
def test_the_relations_that_a_model_can_show_are_exercised(name):
    results = {o.rule: o for o in report_of(name).outcomes}
    assert {c: results[c].reason for c in EXERCISED[name] if results[c].result == "not-exercised"} == {}


def test_a_model_that_is_left_out_of_the_table_would_be_noticed():
    assert set(EXERCISED) == set(MODELS)
    assert set(ASKED) <= set(MODELS)


@pytest.mark.slow
def test_falcons_weights_are_returned_by_a_path_without_a_causal_mask_and_the_checker_says_so():
    model = made("Falcon")
    first = torch.arange(5, 12)[None]
    second = first.clone()
    second[:, -1] = 50
    with torch.no_grad():
        one, two = (model(input_ids=ids, output_attentions=True).logits[:, :-1] for ids in (first, second))
    leaks = float((one - two).abs().max()) > 1e-3  # transformers 5.24: 0.03
    found = [f for f in report_of("Falcon").errors if f.rule == "ATT505" and "the causal mask is lost" in f.message]
    assert bool(found) == leaks


@pytest.mark.slow
def test_a_model_that_says_it_takes_no_static_cache_is_not_given_one():
    made_of = made("GPT-Neo, local layers")
    report = regard.check(made_of, select=["ATT203", "ATT206"])
    assert {o.rule: (o.result, o.reason) for o in report.outcomes} == {
        "ATT203": ("passed", ""),
        "ATT206": ("not-exercised", "its cache has no size that can be chosen"),
    }


@pytest.mark.slow
def test_gemmas_question_is_right_its_eager_softmax_is_nan_in_float64_only():
    model = made("Gemma-2, capped scores")
    ids, mask = torch.arange(5, 12)[None], torch.zeros(1, 7, dtype=torch.long)
    finite = {}
    for dtype in (torch.float32, torch.float64):
        with torch.no_grad():
            finite[dtype] = bool(model.to(dtype)(input_ids=ids, attention_mask=mask).logits.isfinite().all())
    assert finite == {torch.float32: True, torch.float64: False}
