"""What modules in unfamiliar styles taught the checker, each on the smallest thing that shows it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.checks.attempt import Failure, attempt_call
from regard.checks.call import Call, Source
from regard.checks.check import check
from regard.checks.defaults import mutable_defaults, put_back
from regard.checks.evidence import Evidence
from regard.checks.layout import Layout
from regard.checks.plan import fixed_arguments, read_signature, stream_plans
from regard.checks.positions import diagonal_spread, distance_spread
from regard.checks.sizes import grids
from regard.checks.subject import Subject


def said(doc: str) -> Evidence:
    return Evidence("Layer", doc, "")


@pytest.mark.parametrize(
    ("words", "promise"),
    [
        ("lengths: (B,) words per item, at least 1", "at least 1"),
        ("lengths: never empty", "never empty"),
        ("lengths: (B,) words per item", None),
    ],
)
def test_a_promise_of_one_visible_key_is_read_from_the_words_about_the_argument(words, promise):
    assert said(words).promises("lengths") == promise


def test_a_promise_about_another_argument_is_none():
    assert said("lengths: (B,) frames\nheads: at least 1").promises("lengths") is None


def test_one_dtype_in_the_words_rules_out_the_others_and_two_do_not():
    assert said("mask: bool (B, S), True = may be read").dtype_only("mask") == "bool"
    assert said("mask: bool, or float that is added to the scores").dtype_only("mask") is None
    assert said("mask: (B, S)").dtype_only("mask") is None


def test_zero_here_and_minus_infinity_there_is_added():
    assert said("key_bias: [B, T], 0 for real frames and -inf for filler").dtype("key_bias") == "additive"
    assert said("mask: (B, T), 1 = keep; scores become -inf elsewhere").dtype("mask") is None


def test_true_that_may_be_read_is_kept():
    assert said("mask: bool (B, S), True = may be read").polarity("mask")[0] == "keep"


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("True on filler tokens", "drop"),
        ("1 for real tokens", "keep"),
        ("True for prompt tokens", None),
        ("1 = token", "keep"),
    ],
)
def test_a_sort_of_token_says_what_becomes_of_it_only_where_the_word_is_known(words, meaning):
    assert said(f"gaps: (B, L), {words}").polarity("gaps")[0] == meaning


def _scores(places: Tensor) -> Tensor:
    """(1, T, T) of something that depends on the difference of two places only. places: (T, axes)."""
    gap = (places[:, None] - places[None]).double()
    return (gap @ torch.arange(1, places.shape[1] + 1).double()).sin()[None] + gap.square().sum(-1)[None]


def test_scores_that_keep_distances_on_a_map_do_not_keep_them_on_a_line():
    rows, columns = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    scores = _scores(torch.stack((rows, columns), -1).reshape(-1, 2))
    assert diagonal_spread(scores) > 0.05
    assert distance_spread(scores) < 1e-12


def test_scores_of_no_distance_are_found_on_a_line_and_on_every_map():
    scores = torch.randn(1, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert distance_spread(scores) > 0.3


class Remembers(nn.Module):
    def forward(self, x, past=[], *, seen={}):  # noqa: B006
        past.append(1)
        seen["x"] = 1
        return x


def test_what_a_call_puts_into_default_arguments_is_found_and_put_back():
    module = Remembers()
    held = {parameter: value for _, parameter, value in mutable_defaults(module)}
    with put_back(module):
        module(1)
        assert (held["past"], held["seen"]) == ([1], {"x": 1})
    assert (held["past"], held["seen"]) == ([], {})


def test_a_list_that_is_given_is_left_as_the_call_made_it():
    past: list[int] = []
    with put_back(Remembers()):
        Remembers()(1, past)
    assert past == [1]


def test_packed_documents_and_required_coordinates_are_filled():
    def packed(x, doc_ids):
        return x

    def points(feats, pos):
        return feats

    tokens = {"x": torch.zeros(2, 5, 3)}
    (first, *_), last = fixed_arguments(read_signature(packed), (5,)), fixed_arguments(read_signature(points), (5,))
    ids = first["doc_ids"](tokens, torch.float64)
    assert (tuple(ids.shape), ids.dtype, int(ids.abs().sum())) == ((2, 5), torch.long, 10)
    made = [f["pos"](tokens, torch.float64) for f in last if callable(f["pos"])]
    assert [tuple(t.shape) for t in made][-2:] == [(2, 5, 3), (2, 5, 2)]


def test_the_argument_named_query_asks_wherever_it_stands():
    def forward(data, queries):
        return queries

    assert stream_plans(read_signature(forward))[0] == {"queries": "query", "data": "context"}


def test_sides_of_a_map_are_read_from_embeddings_of_rows_and_columns():
    module = nn.Module()
    module.rows, module.columns = nn.Parameter(torch.zeros(1, 2, 8, 9, 1)), nn.Parameter(torch.zeros(1, 2, 8, 1, 11))
    assert (9, 11) in grids(module)[:24]


class OneQuery(nn.Module):
    """hidden: (batch, dim); memory: (batch, time, dim)"""

    def __init__(self, dim=12, heard=True):
        super().__init__()
        self.heard, self.a, self.b, self.v = heard, nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(self, hidden, memory):
        query = self.a(hidden).unsqueeze(1) if self.heard else self.a(hidden).unsqueeze(1) * 0
        weights = self.v(torch.tanh(query + self.b(memory))).squeeze(-1).softmax(-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


def test_one_query_vector_for_each_item_is_called_beside_a_context():
    report = check(OneQuery())
    assert report.status == "checked"
    assert report.inferred["inputs"]["hidden"]["layout"] == "BD"
    assert not [f for f in report.findings if f.level != "question"]


def test_a_single_query_that_is_not_heard_is_an_error():
    assert "uniform-attention" in {f.kind for f in check(OneQuery(heard=False)).findings if f.level == "error"}


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("> 0 where there is an edge", "keep"),
        ("0 where there is an edge", "drop"),
        (">0 is padding", "drop"),
        ("!= 0 at real tokens", "keep"),
        ("== 0 is padding", "keep"),
        ("-> 0 means attend", "drop"),
    ],
)
def test_a_comparison_with_zero_says_what_true_means(words, meaning):
    assert said(f"links {words}").polarity("links")[0] == meaning


class BothWays(nn.Module):
    """A passage reads a question and the question's view of the passage; required masks, True where there is a word."""

    def __init__(self, dim=12, heeds=True):
        super().__init__()
        self.heeds, self.w = heeds, nn.Linear(dim, dim, bias=False)

    def forward(self, c, q, c_mask, q_mask):
        s = self.w(c) @ q.mT / 12**0.5
        rows = s.masked_fill(~q_mask.unsqueeze(1), -1e30).softmax(2)
        columns = (s.masked_fill(~c_mask.unsqueeze(2), -1e30) if self.heeds else s).softmax(1)
        return torch.cat([c, rows @ q, c * (rows @ (columns.mT @ c))], 2)


def test_two_required_masks_go_with_their_own_streams_and_the_output_says_which_stream_asks():
    report = check(BothWays(), select=["ATT1", "ATT303", "ATT305"])
    assert report.status == "checked"
    assert report.inferred["inputs"]["c"]["shape"][1] != report.inferred["inputs"]["q"]["shape"][1]
    assert report.findings == []


def test_of_two_required_masks_the_one_that_is_not_heeded_is_named():
    errors = [f for f in check(BothWays(heeds=False), select=["ATT1"]).findings if f.level == "error"]
    assert errors
    assert all("c_mask" in f.message for f in errors)


class Sentences(nn.Module):
    """(B, S, W) ids; given (S, W) it runs as well, and returns one document of three classes, then a weight for each sentence."""

    def __init__(self, vocabulary=40, dim=10):
        super().__init__()
        self.embed, self.score, self.classes = nn.Embedding(vocabulary, dim), nn.Linear(dim, 1), nn.Linear(dim, 3)

    def forward(self, docs):
        sentences = self.embed(docs).mean(-2)
        weights = self.score(torch.tanh(sentences)).softmax(-2)
        return self.classes((weights * sentences).sum(-2)), weights.squeeze(-1)


def test_a_first_output_of_one_shape_for_any_number_of_items_is_no_batch_of_items():
    errors: list[Failure] = []
    words = Call({"x": Source(Layout("BL"), 3, (7,), 1, vocabulary=40)}, {"docs": "x"}, query="x")
    assert attempt_call(Subject(Sentences()), words, errors) is None
    assert "the same shape for any number of items" in errors[0].text


def test_documents_of_sentences_of_words_are_ids_with_two_axes_of_tokens():
    report = check(Sentences(), select=["ATT301"])
    assert report.status == "checked"
    assert len(report.inferred["inputs"]["docs"]["shape"]) == 3
    assert report.findings == []


class OneStepOfADecoder(nn.Module):
    """Sequence-first: one state (1, B, D) asks all annotations (S, B, D); src_len says how many are real."""

    def __init__(self, dim=16):
        super().__init__()
        self.w = nn.Linear(dim, dim, bias=False)

    def forward(self, hidden, encoder_outputs, src_len):
        energy = (hidden * self.w(encoder_outputs)).sum(2).t()
        late = torch.arange(encoder_outputs.size(0))[None] >= src_len[:, None]
        return energy.masked_fill(late, -1e10).softmax(1)[:, None] @ encoder_outputs.transpose(0, 1)


def test_one_state_that_asks_what_was_encoded_time_first_is_called_with_several_items():
    report = check(OneStepOfADecoder(), select=["ATT1", "ATT301"])
    assert report.inferred["inputs"]["encoder_outputs"]["shape"][1] > 1
    assert not [f for f in report.findings if f.level == "error"]


class OneAtATime(nn.Module):
    """Refuses two items, and never reads the lengths."""

    def __init__(self, dim=16):
        super().__init__()
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, x, memory, memory_len):
        if len(x) > 1 or len(memory) > 1:
            raise ValueError("one item at a time")
        k, v = self.kv(memory).chunk(2, -1)
        return (self.q(x) @ k.mT / 4).softmax(-1) @ v


def test_a_mask_without_effect_is_asked_where_no_call_with_two_items_ran():
    findings = check(OneAtATime(), select=["ATT105"]).findings
    assert [f.level for f in findings] == ["question"]
    assert "is the first axis the batch?" in findings[0].message


class TwoOutputs(nn.Module):
    """A content stream and a query stream, as in permutation language models: each has an output, the first reads content only."""

    def __init__(self, dim=16, second=True):
        super().__init__()
        self.second, self.q, self.kv = second, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, h, g):
        k, v = self.kv(h).chunk(2, -1)
        out = [(self.q(x) @ k.mT / 4).softmax(-1) @ v for x in ((h, g) if self.second else (h, h))]
        return out[0], out[1]


@pytest.mark.parametrize(("second", "level"), [(True, "question"), (False, "error")])
def test_a_stream_with_an_output_of_its_own_is_asked_about_and_one_without_is_an_error(second, level):
    assert [f.level for f in check(TwoOutputs(second=second), select=["ATT306"]).findings] == [level]
