"""Arguments of forms of their own: ids of several streams, states, masks, places, edges, levels; what runs further is followed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.checks.build import build
from regard.checks.check import check
from regard.checks.first_calls import with_first_call
from regard.checks.forms import LEVELS, Form, made
from regard.checks.forms_apart import Guess, items_asked
from regard.checks.infer import infer_call
from regard.checks.subject import Subject
from regard.checks.touches import Touches


def attend(q, k, v, bias=0.0):
    return (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1) @ v


class Three(nn.Module):
    """Words, segments and places, all ids."""

    def __init__(self, dim=16):
        super().__init__()
        self.word, self.kind, self.place = nn.Embedding(50, dim), nn.Embedding(2, dim), nn.Embedding(12, dim)

    def forward(self, input_ids, token_type_ids, position_ids):
        x = self.word(input_ids) + self.kind(token_type_ids) + self.place(position_ids)
        return attend(x, x, x)


class Step(nn.Module):
    """A token, the two states of an LSTM, what was encoded, how long it is; time comes first."""

    def __init__(self, dim=16, layers=2):
        super().__init__()
        self.word, self.lstm = nn.Embedding(40, dim), nn.LSTM(dim, dim, layers)

    def forward(self, tokens, state, encoded, encoded_len):
        y, state = self.lstm(self.word(tokens), state)
        late = torch.arange(encoded.shape[0])[None] >= encoded_len[:, None]
        score = (y.transpose(0, 1) @ encoded.permute(1, 2, 0)).masked_fill(late[:, None], -1e9)
        return (score.softmax(-1) @ encoded.transpose(0, 1)).transpose(0, 1), state


class TwoAdded(nn.Module):
    """Each stream has a mask of its own, added to the scores; no name says mask."""

    def __init__(self, a=12, b=20, dim=16):
        super().__init__()
        self.a, self.b = nn.Linear(a, dim), nn.Linear(b, dim)

    def forward(self, left, below_left, right, below_right):
        x, y = self.a(left)[:, None], self.b(right)[:, None]
        return attend(x, y, y, below_right)[:, 0], attend(y, x, x, below_left)[:, 0]


class Slots(nn.Module):
    """Two items at most; the caller says where the tokens stand."""

    def __init__(self, dim=16, slots=20):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("k", torch.zeros(2, slots, dim))
        self.register_buffer("v", torch.zeros(2, slots, dim))

    def forward(self, x, input_pos):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.k[: len(x), input_pos], self.v[: len(x), input_pos] = k.detach(), v.detach()
        seen = torch.arange(self.k.shape[1])[None] <= input_pos[:, None]
        bias = torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, -1e9)
        return attend(q, self.k[: len(x)], self.v[: len(x)], bias)


class Pyramid(nn.Module):
    """Queries look at one point of every level."""

    def __init__(self, dim=16, n_levels=3):
        super().__init__()
        self.n_levels, self.weigh, self.value = n_levels, nn.Linear(dim, n_levels), nn.Linear(dim, dim)

    def forward(self, query, reference_points, src, spatial_shapes, level_start_index):
        weights, maps, out = self.weigh(query).softmax(-1), self.value(src), 0
        for i, (h, w) in enumerate(spatial_shapes.tolist()):
            start = int(level_start_index[i])
            m = maps[:, start : start + h * w].mT.unflatten(-1, (h, w))
            seen = F.grid_sample(m, 2 * reference_points[:, :, None, i] - 1, align_corners=False)[..., 0]
            out = out + weights[..., i : i + 1] * seen.mT
        return out


class Edges(nn.Module):
    def __init__(self, dim=12, edge_dim=5):
        super().__init__()
        self.qkv, self.edge = nn.Linear(dim, 3 * dim), nn.Linear(edge_dim, 1)

    def forward(self, x, edge_index, edge_attr):
        q, k, v = self.qkv(x).chunk(3, -1)
        src, dst = edge_index
        score = (q[dst] * k[src]).sum(-1) * 12**-0.5 + self.edge(edge_attr)[:, 0]
        most = torch.full_like(score[: len(x)], -torch.inf).scatter_reduce(0, dst, score.detach(), "amax")
        e = (score - most[dst]).exp()
        whole = torch.zeros_like(most).index_add(0, dst, e)
        return torch.zeros_like(x).index_add(0, dst, (e / whole[dst])[:, None] * v[src])


class Clip(nn.Module):
    """(B, T, H, W, D) of one size."""

    def __init__(self, dim=16):
        super().__init__()
        self.place = nn.Parameter(torch.randn(4, 6, 6, dim))
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)

    def forward(self, x):
        y = (x + self.place).flatten(1, 3)
        return x + self.attn(y, y, y)[0].view_as(x)


class Clicks(nn.Module):
    """One candidate and a history of ids."""

    def __init__(self, dim=8):
        super().__init__()
        self.item, self.score = nn.Embedding(60, dim), nn.Linear(2 * dim, 1)

    def forward(self, item, clicks, clicks_len):
        q, h = self.item(item), self.item(clicks)
        score = self.score(torch.cat([q[:, None].expand_as(h), h], -1))[..., 0]
        real = torch.arange(h.shape[1])[None] < clicks_len[:, None]
        return ((score * real)[:, None] @ h)[:, 0]


def laid_out(module):
    call = infer_call(Subject(module))
    generator = torch.Generator().manual_seed(0)
    return call, call.lay_out({n: s.sample(generator) for n, s in call.sources.items()}, torch.float32)


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        (Three(), {"input_ids": (3, 7), "token_type_ids": (3, 7)}),
        (TwoAdded(), {"left": (3, 7, 12), "right": (3, 11, 20), "below_right": (3, 1, 1, 11)}),
        (Slots(), {"x": (2, 7, 16), "input_pos": (7,)}),
        (Clip(), {"x": (3, 4, 6, 6, 16)}),
        (Clicks(), {"item": (3,), "clicks_len": (3,)}),
    ],
)
def test_every_argument_gets_a_form_and_a_size_of_its_own(module, shapes):
    _, given = laid_out(module)
    assert {n: tuple(given[n].shape) for n in shapes} == shapes


def test_a_state_of_two_parts_goes_with_streams_that_come_time_first():
    call, given = laid_out(Step())
    items = given["encoded_len"].shape[0]
    assert [tuple(s.shape) for s in given["state"]] == [(2, items, 16)] * 2
    assert given["tokens"].shape[1] == given["encoded"].shape[1] == items
    assert call.keys in (call.arguments["encoded"], "x")


def test_levels_their_starts_and_the_pixels_of_all_of_them_agree():
    _, given = laid_out(Pyramid())
    assert given["spatial_shapes"].tolist() == [list(s) for s in LEVELS[:3]]
    assert given["src"].shape[1] == sum(h * w for h, w in LEVELS[:3])
    assert given["level_start_index"].tolist() == [0, 24, 30]


def test_edges_lead_both_ways_and_what_says_something_of_them_has_as_many_rows():
    call, given = laid_out(Edges())
    pairs = {tuple(p) for p in given["edge_index"].T.tolist()}
    assert {(b, a) for a, b in pairs} == pairs
    assert len(given["edge_attr"]) == given["edge_index"].shape[1]
    assert call.sources["x"].layout.axes == "LD"


@pytest.mark.parametrize("module", [Three(), Step(), TwoAdded(), Slots(), Pyramid(), Edges(), Clip(), Clicks()])
def test_what_is_right_and_newly_called_gets_questions_at_most(module):
    report = check(module)
    assert report.status == "checked", report.reason
    assert not [(f.rule, f.message) for f in report.findings if f.level == "error"]


def test_a_mask_that_no_name_gives_away_is_known_by_being_added_to_scores():
    masks = {m["argument"]: m["works"] for m in check(TwoAdded()).inferred["masks"]}
    assert masks["below_right"]


def test_a_mask_in_which_true_hides_is_given_as_one_that_hides_nothing():
    class Padded(TwoAdded):
        def forward(self, left, ignore_left, right, ignore_right):
            one, two = (
                torch.zeros(m.shape, dtype=left.dtype).masked_fill(m, -torch.inf)[:, None]
                for m in (ignore_left, ignore_right)
            )
            x, y = self.a(left), self.b(right)
            return attend(x, y, y, two), attend(y, x, x, one)

    _, given = laid_out(Padded())
    assert not given["ignore_left"].any()
    assert given["ignore_right"].shape[1] == given["right"].shape[1]


def test_lengths_that_no_name_gives_away_are_known_by_being_counted():
    class Widths(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.look = nn.Embedding(30, 16), nn.Linear(20, 16)

        def forward(self, columns, widths, written):
            x, y = self.embed(written), self.look(columns)
            out = torch.arange(y.shape[1])[None] >= widths[:, None]
            return attend(x, y, y, torch.zeros(out.shape, dtype=y.dtype).masked_fill(out, -1e9)[:, None])

    report = check(Widths(), select=["ATT1"])
    assert [m["argument"] for m in report.inferred["masks"]] == ["widths"]
    assert not report.findings


def test_what_a_function_of_torch_wants_of_an_argument_is_seen_through_views():
    given = {"ids": torch.randn(2, 3), "n": torch.ones(2)}
    with Touches(given) as seen:
        assert (torch.arange(3)[None] < given["n"][:, None]).shape == (2, 3)
        with pytest.raises(RuntimeError):
            F.embedding(given["ids"].view(6), torch.randn(9, 4))
    assert (seen.vocabulary, seen.counts, seen.last) == ({"ids": 9}, {"n"}, ("ids",))


def test_sizes_are_put_right_by_what_a_message_says():
    forms = (Form("float", "BLD"), Form("state", "NBD"))
    guess = Guess(("x", "h"), forms, set())
    assert guess.repair("Expected hidden size (2, 3, 16), got [1, 3, 17]", ("h",))
    assert (guess.size["h", "N"], guess.size["h", "D"]) == (2, 16)
    assert guess.repair("mat1 and mat2 shapes cannot be multiplied (21x52 and 64x8)", ("x",))  # four times as wide
    assert guess.size["x", "D"] == 16
    table = Guess(("x", "turn"), (Form("float", "BLD"), Form("table", "LD2")), set())
    assert table.repair("shape '[1, 7, 1, 4, 2]' is invalid for input of size 238", ("turn",))
    assert (table.size["turn", "L"], table.size["turn", "D"]) == (7, 4)
    assert not table.repair("list index out of range", ("x",))


def test_room_for_other_numbers_of_items_is_read_from_two_shapes():
    text = "value tensor of shape [3, 1, 7] cannot be broadcast to indexing result of shape [2, 1, 7]"
    assert items_asked(text, 3) == 2
    assert items_asked("shapes [3, 7] and [3, 9]", 3) is None
    assert items_asked("shapes [3, 7] and [5, 7]", 3) == 5
    assert items_asked("shapes [3, 7] and [50, 7]", 3) is None


def test_what_is_made_up_follows_the_tokens_and_is_equal_for_all_items():
    places = made(Form("places", "BL"), {"L": 7}, {"L": "x"}, 3, "x", None)
    assert places({"x": torch.zeros(4, 5, 8)}, torch.float32).tolist() == [[0, 1, 2, 3, 4]] * 4  # type: ignore[attr-defined]
    state = made(Form("state", "NBD", 2), {"N": 2, "D": 6}, {}, 3, "x", None)(
        {"x": torch.zeros(4, 5, 8)}, torch.float64
    )
    assert [tuple(s.shape) for s in state] == [(2, 4, 6)] * 2  # type: ignore[attr-defined]
    assert all(torch.equal(s[:, 0], s[:, 3]) for s in state)  # type: ignore[attr-defined]


class Later(nn.Module):
    """Its slots are made by a call of their own."""

    def __init__(self, dim=16):
        super().__init__()
        self.qkv, self.slots = nn.Linear(dim, 3 * dim), None

    def setup_caches(self, max_batch_size, max_seq_length):
        self.slots = torch.zeros(max_batch_size, max_seq_length, 16)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.slots[: len(x), : x.shape[1]] = v.detach()
        return attend(q, k, self.slots[: len(x), : x.shape[1]])


def test_a_method_that_the_forward_needs_is_called_before_the_first_token():
    ready = with_first_call(Later(), 0)
    assert tuple(ready.slots.shape) == (4, 64, 16)
    assert build(Later)[0].slots is not None


def test_where_the_forward_runs_without_it_no_method_is_called():
    class Guarded(Later):
        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            if self.slots is not None:
                v = v + self.slots[: len(x), : x.shape[1]]
            return attend(q, k, v)

    assert with_first_call(Guarded(), 0) is None
    assert with_first_call(nn.Linear(3, 3), 0) is None
    assert with_first_call(len, 0) is None


class Samples(nn.Module):
    """(samples, features, dim): features read each other, then samples the other samples."""

    def __init__(self, features=6, dim=8, joined=True):
        super().__init__()
        self.norm, self.joined, self.qkv = nn.LayerNorm(dim), joined, nn.Linear(dim, 3 * dim)
        wide = features * dim if joined else dim
        self.across = nn.Linear(wide, 3 * wide)

    def forward(self, table):
        x = table + attend(*self.qkv(self.norm(table)).chunk(3, -1))
        y = x.flatten(1)[None] if self.joined else x.transpose(0, 1)
        y = attend(*self.across(y).chunk(3, -1))
        return x + (y[0].view_as(x) if self.joined else y.transpose(0, 1))


class InterSample(Samples):
    def __init__(self):
        super().__init__(joined=False)


def test_samples_that_read_each_other_on_purpose_are_asked_about():
    for module, words in ((Samples(), "6 x 8 numbers"), (InterSample(), "InterSample")):
        found = check(module, select=["ATT301"]).findings
        assert [f.level for f in found] == ["question"]
        assert words in found[0].message


def test_samples_that_read_each_other_without_a_sign_of_purpose_are_an_error():
    assert [f.level for f in check(Samples(joined=False), select=["ATT301"]).findings] == ["error"]
