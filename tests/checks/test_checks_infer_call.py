"""A call is found for every way in which attention is written: layouts, sizes, lists, tables, masks that are required."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from regard.checks.call import Call, Source
from regard.checks.case import Case
from regard.checks.check import check
from regard.checks.layout import Layout
from regard.checks.plan import fixed_arguments, read_signature
from regard.checks.prepare import NotCallable, prepare
from regard.checks.settle import fitted_vocabularies
from regard.checks.subject import Subject


def attend(q, k, v, scale=None):
    return (q @ k.mT * (scale or q.shape[-1] ** -0.5)).softmax(-1) @ v


def layout(case: Case) -> str:
    return case.call.sources[case.call.query].layout.axes


class Base(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def mix(self, x):
        return attend(*self.qkv(x).chunk(3, -1))


class Tokens(Base):
    def forward(self, x):
        _b, _n, _c = x.shape
        return self.mix(x)


class SequenceFirst(Base):
    def forward(self, x):
        return self.mix(x.transpose(0, 1)).transpose(0, 1)


class Images(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)

    def forward(self, x):
        q, k, v = self.qkv(x).flatten(2).mT.chunk(3, -1)
        return attend(q, k, v).mT.reshape(x.shape)


class ChannelsLast(Base):
    def forward(self, x):
        b, h, w, c = x.shape
        return self.mix(x.reshape(b, h * w, c)).reshape(b, h, w, c)


class Rectangle(Base):
    def forward(self, x, H, W):
        image = x.transpose(1, 2).reshape(x.shape[0], x.shape[2], H, W)
        return self.mix(image.flatten(2).transpose(1, 2))


class Windows(Base):
    def __init__(self, dim, window_size=4):
        super().__init__(dim)
        self.bias = nn.Parameter(torch.zeros(window_size**2, window_size**2))

    def forward(self, x):
        _b, _rows, _columns, height, width, c = x.shape
        q, k, v = self.qkv(x.reshape(-1, height * width, c)).chunk(3, -1)
        return ((q @ k.mT + self.bias).softmax(-1) @ v).reshape(x.shape)


class History(Base):
    def forward(self, history: list[Tensor]):
        x = torch.stack(history, 2)
        return self.mix(x.flatten(0, 1))[:, -1].reshape(history[0].shape)


class Rotating(Base):
    def forward(self, x, rotary_emb, attn_mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        if rotary_emb is not None:
            q, k = rotary_emb(q), rotary_emb(k)
        return (q @ k.mT).masked_fill(~attn_mask, -torch.inf).softmax(-1) @ v


@dataclass
class Answer:
    weights: Tensor
    hidden: Tensor


class Dataclass(Base):
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.mT).softmax(-1)
        return Answer(weights, weights @ v)


class Pooled(Base):
    def forward(self, x):
        return self.mix(x).mean((1, 2))


class Wide(nn.Module):
    def __init__(self, dim, context_dim):
        super().__init__()
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(context_dim, 2 * dim)

    def forward(self, x, context):
        return attend(self.q(x), *self.kv(context).chunk(2, -1))


class Fussy(Base):
    def train(self, mode=True):  # forgets to return itself
        super().train(mode)

    def forward(self, x):
        return self.mix(x)


def kernel(q, k, v):
    """Heads first."""
    _b, _h, _t, _d = q.shape
    return attend(q, k, v)


def one_key_head(query, key, value, scale):
    """(B, H, T, D) and (B, S, D)."""
    _b, _h, _t, _d = query.shape
    return torch.einsum("bhts,bsd->bhtd", (torch.einsum("bhtd,bsd->bhts", query, key) * scale).softmax(-1), value)


def shared(qk, v):
    """Queries are the keys."""
    return attend(qk, qk, v)


@pytest.mark.parametrize(
    ("target", "axes"),
    [
        (Tokens, "BLD"), (SequenceFirst, "LBD"), (Images, "BDHW"), (ChannelsLast, "BHWD"), (Windows, "BTHWLD"),
        (kernel, "BKLD"), (Fussy, "BLD"), (Pooled, "BLD"),
    ],
)  # fmt: skip
def test_the_layout_is_found(target, axes):
    assert layout(prepare(target)) == axes


def test_rows_and_columns_multiply_to_the_number_of_tokens():
    case = prepare(Rectangle)
    source = case.call.sources["x"]
    assert case.call.fixed["H"] * case.call.fixed["W"] == source.tokens


def test_a_list_of_streams_is_one_argument():
    case = prepare(History)
    assert set(case.call.arguments) == {"history[0]", "history[1]"}
    assert case.run(case.sample()).shape[-1] == 32


def test_a_table_may_be_left_out_and_a_required_mask_hides_nothing():
    case = prepare(Rotating)
    assert case.call.fixed["rotary_emb"] is None
    assert "hides nothing" in case.call.fixed["attn_mask"].__doc__


def test_the_main_output_is_found_in_a_data_class_and_is_not_the_weights():
    assert prepare(Dataclass).call.output == ("hidden",)


def test_one_number_for_each_item_is_an_output_that_does_not_follow_the_tokens():
    case = prepare(Pooled)
    assert not case.call.follows
    assert case.run(case.sample()).shape == (3, 1, 1)


def test_a_context_may_have_another_width_and_length():
    case = prepare(Wide, init={"dim": 32, "context_dim": 20})
    query, context = case.call.sources["query"], case.call.sources["context"]
    assert (query.width, context.width) == (32, 20)
    assert query.tokens != context.tokens


def test_keys_without_heads_may_go_with_queries_of_several():
    case = prepare(one_key_head)
    assert [s.layout.axes for s in case.call.sources.values()] == ["BKLD", "BLD"]
    assert case.call.fixed["scale"] == 0.5


def test_queries_that_are_the_keys_share_the_stream_of_the_values():
    assert set(prepare(shared).call.arguments.values()) == {"x"}


def test_the_error_of_the_attempt_that_came_furthest_is_told(monkeypatch):
    monkeypatch.setattr("regard.checks.prepare.SECONDS", 0.5)
    monkeypatch.setattr("regard.checks.prepare.SHORT", 0.5)
    monkeypatch.setattr("regard.checks.prepare.LONG", 0.5)

    class Breaks(Base):
        def forward(self, x):
            self.mix(x)
            raise RuntimeError("the last step is broken")

    with pytest.raises(NotCallable, match="the last step is broken"):
        prepare(Breaks)


class OneStep(Base):
    """A state for each item, called h."""

    def forward(self, token, h, memory):
        return attend((token + h)[:, None], memory, memory)[:, 0]


def test_a_size_that_is_asked_for_beside_one_vector_per_item_breaks_nothing():
    signature = read_signature(OneStep.forward)
    assert fixed_arguments(signature, ())[0]["h"] == 1


def test_a_fault_of_the_search_itself_is_told_as_a_module_that_was_not_exercised(monkeypatch):
    monkeypatch.setattr("regard.checks.prepare.infer_call", lambda *_: () + 1)
    report = check(Tokens)
    assert report.status == "not-exercised"
    assert "the search for a call broke off: TypeError" in report.reason


class Bag(nn.Module):
    """One bag of instances, (K, dim), without an axis of items: one vector of scores."""

    def __init__(self, dim=20):
        super().__init__()
        self.weigh, self.judge = nn.Sequential(nn.Linear(dim, 12), nn.Tanh(), nn.Linear(12, 1)), nn.Linear(dim, 5)

    def forward(self, instances):
        shares = torch.softmax(self.weigh(instances).t(), dim=1)  # (1, K)
        return self.judge(torch.mm(shares, instances).view(-1)), shares


def test_a_lone_bag_gives_one_vector():
    case = prepare(Bag)
    assert layout(case) == "LD"
    assert (case.call.output, case.call.follows) == ((0,), False)
    assert case.run(case.sample()).shape == (1, 1, 5)


def test_a_lone_bag_gives_no_alarm():
    assert not [f for f in check(Bag).findings if f.level in ("error", "warning")]


class Bound:
    """Weights in a list, einsum for every product: no module."""

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, x):
        q, k, v = (torch.einsum("...nd,de->...ne", x, w.to(x)) for w in self.weights)
        return attend(q, k, v)


def closed_over():
    w = torch.randn(24, 72, generator=torch.Generator().manual_seed(0)) / 5

    def mix(x):
        return attend(*torch.einsum("bnd,de->bne", x, w.to(x)).chunk(3, -1))

    return mix


@pytest.mark.parametrize("make", [lambda: Bound([torch.randn(18, 18) / 4 for _ in range(3)]), closed_over])
def test_the_width_of_a_function_comes_from_the_weights_that_it_keeps(make):
    case = prepare(make())
    assert layout(case) == "BLD"
    assert case.call.sources["x"].width in (18, 24)


class TwoTables(nn.Module):
    """Ids of two streams, a table for each, and one of positions."""

    def __init__(self, source=30, target=26, refused=None):
        super().__init__()
        self.source, self.target, self.place = (nn.Embedding(n, 8) for n in (source, target, 40))
        self.refused = refused

    def forward(self, source, target):
        if self.refused is not None and int(target.max()) >= self.refused:
            raise ValueError("no such id")
        h = self.target(target) + self.place.weight[: target.shape[1]]
        return attend(h, self.source(source), self.source(source))


def vocabularies(module: nn.Module, size: int) -> list[int | None]:
    ids = {n: Source(Layout("BL"), 3, (m,), 1, vocabulary=size) for n, m in (("target", 7), ("source", 9))}
    call = Call(ids, {"target": "target", "source": "source"}, query="target")
    return [s.vocabulary for s in fitted_vocabularies(Subject(module), call).sources.values()]


@pytest.mark.parametrize(
    ("source", "target", "refused", "fitted"),
    [
        (30, 30, None, [30, 30]),
        (30, 26, None, [26, 30]),
        (30, 26, 26, [30, 30]),  # such ids mean something else to it: left as they were
        (26, 30, None, [30, 26]),
    ],
)
def test_ids_of_each_stream_stay_within_its_own_table(source, target, refused, fitted):
    assert vocabularies(TwoTables(source, target, refused), 30) == fitted


def test_ids_go_up_to_what_each_table_holds():
    assert vocabularies(TwoTables(30, 26), 20) == [26, 30]


@pytest.mark.parametrize(("source", "target"), [(30, 26), (26, 30)])
def test_a_model_of_two_tables_runs_again_and_again(source, target):
    assert check(TwoTables(source, target), select=["ATT301"]).status == "checked"
